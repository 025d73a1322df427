# Install rules, so that find_package(kvferry) works.
