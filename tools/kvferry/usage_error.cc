// CLI11's own words lack the unknown command's name, and tell what is left over backwards.
#include "usage_error.h"

#include <cstdio>
#include <string>
#include <vector>

#include "exit_code.h"

namespace kvferry::tool {
namespace {

// "host, nvme or reopen".
std::string CommandsOf(const CLI::App& app) {
  std::string names;
  const std::vector<const CLI::App*> commands = app.get_subcommands({});
  for (std::size_t i = 0; i < commands.size(); ++i) {
    names.append(i == 0 ? "" : i + 1 == commands.size() ? " or " : ", ");
    names.append(commands[i]->get_name());
  }
  return names;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text.append(text.empty() ? "" : " ").append(word);
  }
  return text;
}

std::string Problem(const CLI::App& app, const CLI::App& innermost, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining(true);
  const bool has_commands = !innermost.get_subcommands({}).empty();
  if (has_commands && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    // CLI11 reads an unknown command as a missing one.
    return left.empty() || left.front().starts_with('-')
               ? "no command is given: it is " + CommandsOf(innermost)
               : "no command '" + left.front() + "': it is " + CommandsOf(innermost);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty()) {
    return (left.size() == 1 ? "this was not expected: " : "these were not expected: ") +
           Joined(left);
  }
  return error.what();
}

}  // namespace

int ReportUsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* innermost = &app;
  std::string command = app.get_name();
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().back();
    command.append(" ").append(innermost->get_name());
  }
  std::fprintf(stderr, "kvferry: %s; see %s --help\n", Problem(app, *innermost, error).c_str(),
               command.c_str());
  return kExitUsage;
}

}  // namespace kvferry::tool
