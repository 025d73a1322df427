"""Tests of tools/tidy/tidy.py: a clean tree passes, a canary with one of each sin is told all."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "tidy"))
import tidy  # noqa: E402 (found through the line above)

CLEAN = {
    "tools/tidy/layers.txt": """[layers]
base :
policy : base
tests : base policy
[pure]
policy : <thread> base/clock.h
[homes]
zstd.h : src/base/packer.cc
gtest/* : tests/*
[allowed]
shared_ptr : src/base/packer.cc
""",
    "src/base/CMakeLists.txt": "kvferry_library(kvferry_base SOURCES packer.cc)\n",
    "src/base/packer.h": """// Packer: makes bytes fewer, and more again.
#pragma once
namespace kvferry {
class Packer {
 public:
  Packer(const Packer&) = delete;  // Words in comments are free: new, delete, getenv().
  const char* kText = "new delete getenv( system_clock";
  int big = 1'000'000;
  static auto Create() { return std::unique_ptr<Packer>(
      new Packer(1)); }
};
}  // namespace kvferry
""",
    "src/base/packer.cc": """// Why zstd: see docs/decisions.
#include "base/packer.h"

#include <vector>

#include <zstd.h>

std::shared_ptr<int> allowed_here;
""",
    "tests/base/CMakeLists.txt": "kvferry_test(kvferry_base_test SOURCES packer_test.cc)\n",
    "tests/base/packer_test.cc": """// Tests of Packer: bytes come back.
#include "base/packer.h"

#include <gtest/gtest.h>

TEST(PackerTest, Packs) {
  // [pack]
  Packer packer;
  if (packer.IsGood()) {
    packer.Pack();
  }
  // [/pack]
}
""",
    "docs/glossary.md": """# Words

| We say | Meaning | Others say |
| --- | --- | --- |
| block key | names a prefix | `block_hash` |
""",
    "README.md": """# Clean

Run `tools/dev/go.sh` or `cmake --preset dev`; see [words](docs/glossary.md#words).

<!-- tests/base/packer_test.cc: pack -->
```cpp
Packer packer;
if (packer.IsGood()) {
  packer.Pack();
}
```
""",
    "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "dev"}]}\n',
    "tools/dev/go.sh": "#!/bin/sh\n# Goes, and says where it went.\n",
}

# path: (text, messages). Each file sins once, or in the one way its name says.
SINS = {
    "src/base/upward.cc": (
        '// Includes a layer above its own.\n#include "policy/lru.h"\n',
        ['src/base/upward.cc:2: base may not include "policy/lru.h" (layers.txt)'],
    ),
    "src/engine/lost.cc": (
        "// A folder without a layer.\n",
        ["src/engine/lost.cc:1: folder engine has no line in [layers] of tools/tidy/layers.txt"],
    ),
    "src/policy/clocked.cc": (
        '// A decision that reads a clock.\n#include <thread>\n#include "base/clock.h"\n'
        "auto t = Clock::now();\n",
        [
            "src/policy/clocked.cc:2: policy is pure and may not include <thread>",
            'src/policy/clocked.cc:3: policy is pure and may not include "base/clock.h"',
            "src/policy/clocked.cc:4: policy is pure and may not read a clock",
        ],
    ),
    "include/kvferry/leaky.h": (
        '// Shows what is inside.\n#pragma once\n#include "base/packer.h"\n',
        ['include/kvferry/leaky.h:3: public header includes "base/packer.h": only itself and std'],
    ),
    "src/policy/homeless.cc": (
        "// Libraries away from home.\n#include <zstd.h>\n#include <curl/curl.h>\n",
        [
            "src/policy/homeless.cc:2: <zstd.h> may only be included in its home (layers.txt)",
            "src/policy/homeless.cc:3: <curl/curl.h> has no home in tools/tidy/layers.txt",
        ],
    ),
    "src/base/text.cc": (
        "// Text sins, all of them.\nint a;\t\nint b; \n// " + "x" * 98 + "\nint c;",
        [
            "src/base/text.cc:2: tab",
            "src/base/text.cc:2: white space at the end of the line",
            "src/base/text.cc:3: white space at the end of the line",
            "src/base/text.cc:4: 101 columns, more than 100",
            "src/base/text.cc:5: no newline at the end",
        ],
    ),
    "src/base/blank.cc": (
        "// Ends with a blank line.\n\n",
        ["src/base/blank.cc:2: blank line at the end"],
    ),
    "src/base/aimless.cc": (
        "int aimless;\n",
        ["src/base/aimless.cc:1: the first comment must be a sentence of purpose"],
    ),
    "src/base/dead.h": (
        "// A header that nobody wants.\n",
        [
            "src/base/dead.h:1: no #pragma once",
            "src/base/dead.h:1: nobody includes this header",
        ],
    ),
    "src/base/unbuilt.cc": (
        "// In no build: the list below leaves it out.\n",
        ["src/base/unbuilt.cc:1: not named in a CMakeLists.txt"],
    ),
    "src/base/utils/drawer.cc": (
        "// In a drawer for everything.\n",
        ["src/base/utils/drawer.cc:1: a folder name that says nothing"],
    ),
    "src/base/constructs.cc": (
        "// Constructs that we do without.\n"
        "int* a = new int;\n"
        "void F() { delete a; }\n"
        "std::shared_ptr<int> b;\n"
        "std::future<int> c;\n"
        "int d = rand();\n"
        'auto e = getenv("E");\n'
        "auto f = std::chrono::system_clock::now();\n"
        "using namespace std;\n"
        "#if 0\n",
        [
            "src/base/constructs.cc:10: code behind #if 0",
            "src/base/constructs.cc:2: new: use own by value or std::make_unique",
            "src/base/constructs.cc:3: delete: use own by value or std::unique_ptr",
            "src/base/constructs.cc:4: shared_ptr: use one owner, others borrow",
            "src/base/constructs.cc:5: std::future: use tickets and completions",
            "src/base/constructs.cc:6: rand: use base/random.h, seeded",
            "src/base/constructs.cc:7: getenv: use an option",
            "src/base/constructs.cc:8: system_clock: use the clock seam or steady_clock",
            "src/base/constructs.cc:9: using namespace: use name what is used",
        ],
    ),
    "tests/base/sloppy_test.cc": (
        "// Tests that do not test.\n"
        "// TEST(Packer, IsGone) {\n"
        "TEST(Packer, DISABLED_Works) {}\n"
        "void Wait() { std::this_thread::sleep_for(kLong); }\n"
        "int a;  // NOLINT\n"
        "int b;  // TODO: later\n"
        "int c;  // NOLINT(readability-magic) and TODO(#12): these are fine.\n",
        [
            "tests/base/sloppy_test.cc:2: a test that is commented out",
            "tests/base/sloppy_test.cc:3: a disabled test",
            "tests/base/sloppy_test.cc:4: sleep_for: use a manual clock or a condition",
            "tests/base/sloppy_test.cc:5: NOLINT without the name of a check",
            "tests/base/sloppy_test.cc:6: a TODO without an issue number: TODO(#12)",
        ],
    ),
    "src/base/words.cc": (
        "// Another word for a known thing.\nint FindBlockHash(int my_block_hash_2);\n",
        [
            "src/base/words.cc:2: FindBlockHash: we say block key (docs/glossary.md)",
            "src/base/words.cc:2: my_block_hash_2: we say block key (docs/glossary.md)",
        ],
    ),
    "docs/dead.md": (
        "[a](gone.md) [b](glossary.md#nowhere) `src/base/gone.h` [c](https://example.org)\n",
        [
            "docs/dead.md:1: dead link: gone.md",
            "docs/dead.md:1: dead link: no heading for #nowhere",
            "docs/dead.md:1: no such file: src/base/gone.h",
        ],
    ),
    "docs/shown.md": (
        "```cpp\nint a;\n```\n"
        "<!-- tests/base/packer_test.cc: pack -->\n```cpp\nPacker packet;\n```\n"
        "<!-- tests/base/packer_test.cc: unpack -->\n```cpp\nPacker packer;\n```\n"
        "```\nno C++\n```\n",
        [
            "docs/shown.md:1: C++ without the source that it is cut from",
            "docs/shown.md:4: differs from part [pack] of tests/base/packer_test.cc",
            "docs/shown.md:8: no part [unpack] in tests/base/packer_test.cc",
        ],
    ),
    "CONTRIBUTING.md": (
        "Run tools/dev/gone.sh, then cmake --workflow --preset moon.\n",
        [
            "CONTRIBUTING.md:1: command tools/dev/gone.sh is not there or not executable",
            "CONTRIBUTING.md:1: preset moon is not in CMakePresets.json",
        ],
    ),
    ".clang-tidy": (
        "Checks: -*, bugprone-*, misc-no-such-check\nWarningsAsErrors: '*'\n"
        "CheckOptions:\n  - { key: readability-gone.Size, value: 1 }\n",
        [
            ".clang-tidy:1: no check of clang-tidy 14 is called misc-no-such-check",
            ".clang-tidy:1: no check of clang-tidy 14 is called readability-gone",
        ],
    ),
}


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for path, text in CLEAN.items():
            self.write(path, text)
        os.chmod(os.path.join(self.root, "tools/dev/go.sh"), 0o755)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def run_tidy(self, *arguments):
        """The exit status and the printed lines."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = tidy.main(["--root", self.root, *arguments])
        return status, output.getvalue().splitlines()

    def test_a_clean_tree_passes_without_a_word(self):
        self.assertEqual(self.run_tidy(), (0, []))

    def test_the_canary_fails_with_exactly_its_messages(self):
        expected = []
        sources = ["packer.cc"]
        for path, (text, messages) in SINS.items():
            self.write(path, text)
            expected += messages
            if path.startswith("src/base/") and "unbuilt" not in path:
                sources.append(path[len("src/base/") :])
        self.write("src/base/CMakeLists.txt", "\n".join(sources) + "\n# unbuilt.cc\n")
        for folder in ("src/policy", "src/engine", "tests/base"):
            names = (os.path.basename(path) for path in [*CLEAN, *SINS] if path.startswith(folder))
            self.write(f"{folder}/CMakeLists.txt", "\n".join(names) + "\n")
        if not tidy.shutil.which("clang-tidy-14"):
            expected = [line for line in expected if not line.startswith(".clang-tidy")]

        status, lines = self.run_tidy()

        self.assertEqual(status, 1)
        self.assertEqual(sorted(lines[:-1]), sorted(expected))
        self.assertRegex(lines[-1], rf"^tidy: {len(expected)} findings in \d+ files$")

    def test_only_reports_the_files_asked_for(self):
        self.write("src/base/packer.cc", "int a;\n")
        self.write("docs/dead.md", "[a](gone.md)\n")

        status, lines = self.run_tidy("--only", "docs/dead.md")

        self.assertEqual(status, 1)
        self.assertEqual(lines[0], "docs/dead.md:1: dead link: gone.md")
        self.assertEqual(len(lines), 2)

    def test_lists_large_files_and_functions_without_failing(self):
        body = "  int a;\n" * 80
        text = f"// Large beyond need.\nvoid F() {{\n{body}}}\n" + "// More.\n" * 400
        self.write("src/base/packer.cc", text)

        status, lines = self.run_tidy()

        self.assertEqual(status, 0)
        self.assertEqual(
            lines,
            [
                "large: src/base/packer.cc:1: 483 lines",
                "large: src/base/packer.cc:2: a function of 81 lines",
            ],
        )


if __name__ == "__main__":
    unittest.main()
