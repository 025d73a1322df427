#!/usr/bin/env python3
"""Checks the source tree for what compilers do not: layers, purposes, dead files, banned words.

Prints one "path:line: message" a finding and exits with 1 if there is any. tools/tidy/layers.txt
holds the rules that name folders and files; CONTRIBUTING.md explains them.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap

TOP_FOLDERS = ("include", "src", "tools", "tests", "bench", "cmake", "docs", "changes", ".ci")
TOP_FILES = ("CMakeLists.txt", "CMakePresets.json", "README.md", "CONTRIBUTING.md", ".clang-tidy")
CPP = (".h", ".cc", ".cu", ".cuh")
COLUMNS_MAX = 100
FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 70
BANNED_FOLDERS = {"utils", "util", "common", "misc", "helpers", "v2", "old", "legacy", "priv"}

# construct: (pattern over code without comments and strings, what to do instead)
BANNED = {
    "new": (r"(?<!::)\bnew\b", "own by value or std::make_unique"),
    "delete": (r"(?<!=)(?<!= )(?<!operator )\bdelete\b", "own by value or std::unique_ptr"),
    "shared_ptr": (r"\b(shared_ptr|make_shared)\b", "one owner, others borrow"),
    "std::future": (r"\bstd::(future|promise|async|packaged_task)\b", "tickets and completions"),
    "rand": (r"\b(rand|srand|random_device)\s*\(", "base/random.h, seeded"),
    "getenv": (r"\bgetenv\s*\(", "an option"),
    "system_clock": (r"\bsystem_clock\b", "the clock seam or steady_clock"),
    "using namespace": (r"\busing\s+namespace\b", "name what is used"),
}
BANNED_IN_TESTS = {"sleep_for": (r"\bsleep_(for|until)\b", "a manual clock or a condition")}


class Tree:
    """The files below a root, read once, with the rules of its layers.txt."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        for top in TOP_FOLDERS:
            for folder, folders, names in os.walk(os.path.join(root, top)):
                folders[:] = sorted(set(folders) - {"__pycache__", "build", "corpus"})
                for name in sorted(names):
                    self._read(os.path.relpath(os.path.join(folder, name), root))
        for name in TOP_FILES:
            if os.path.exists(os.path.join(root, name)):
                self._read(name)
        self.rules = parse_rules(self.texts.get("tools/tidy/layers.txt", ""))

    def _read(self, path):
        if path.endswith((".pyc", ".gz", ".zst", ".tar", ".bin", ".png")):
            return
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            self.texts[path] = file.read()

    def lines(self, path):
        return self.texts[path].split("\n")

    def cpp_files(self):
        return [path for path in self.texts if path.endswith(CPP)]

    def exists(self, path):
        return os.path.exists(os.path.join(self.root, path))


def parse_rules(text):
    """Sections of layers.txt as {section: [(left, [right...])...]}."""
    rules, section = {}, None
    for line in text.split("\n"):
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            left, _, right = line.partition(" :") if " :" in line else line.partition(":")
            rules.setdefault(section, []).append((left.strip(), right.split()))
    return rules


def strip_code(text):
    """C++ text with comments and literals blanked, lines kept."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"'
        r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.S,
    )
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def folder_of(path):
    """The layer of a file: its folder under src/, or its top folder."""
    parts = path.split("/")
    return parts[1] if parts[0] == "src" else parts[0]


def check_layers(tree):
    layers = dict(tree.rules.get("layers", []))
    for path in tree.cpp_files():
        folder = folder_of(path)
        is_public = path.startswith("include/")
        if not is_public and folder not in layers:
            yield path, 1, f"folder {folder} has no line in [layers] of tools/tidy/layers.txt"
            continue
        allowed = set(layers.get(folder, [])) | {folder}
        parts = path.split("/")
        if folder == "tests" and len(parts) > 2 and parts[1] in layers:
            allowed = {parts[1], *layers[parts[1]], *layers.get("/".join(parts[:2]), []), "tests"}
        for number, line in enumerate(tree.lines(path), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match or match[1].startswith("kvferry/"):
                continue
            target = match[1].split("/")[0]
            if match[1] == target and f"{os.path.dirname(path)}/{target}" in tree.texts:
                continue
            if is_public:
                yield path, number, f'public header includes "{match[1]}": only itself and std'
            elif target not in allowed:
                yield path, number, f'{folder} may not include "{match[1]}" (layers.txt)'


def check_pure(tree):
    for folder, headers in tree.rules.get("pure", []):
        for path in tree.cpp_files():
            if not path.startswith(f"src/{folder}/"):
                continue
            for number, line in enumerate(tree.lines(path), 1):
                match = re.match(r'\s*#\s*include\s+(<[^>]+>|"([^"]+)")', line)
                if match and (match[2] or match[1]) in headers:
                    yield path, number, f"{folder} is pure and may not include {match[1]}"
            for number, line in enumerate(strip_code(tree.texts[path]).split("\n"), 1):
                if re.search(r"\bnow\s*\(\s*\)", line):
                    yield path, number, f"{folder} is pure and may not read a clock"


def check_homes(tree):
    homes = tree.rules.get("homes", [])
    for path in tree.cpp_files():
        for number, line in enumerate(tree.lines(path), 1):
            match = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
            if not match or re.fullmatch(r"[a-z_0-9]+", match[1]):
                continue
            known = [files for header, files in homes if fnmatch.fnmatchcase(match[1], header)]
            if not known:
                yield path, number, f"<{match[1]}> has no home in tools/tidy/layers.txt"
            elif not any(fnmatch.fnmatchcase(path, glob) for files in known for glob in files):
                yield path, number, f"<{match[1]}> may only be included in its home (layers.txt)"


def check_text(tree):
    for path, text in tree.texts.items():
        if text and not text.endswith("\n"):
            yield path, text.count("\n") + 1, "no newline at the end"
        if text.endswith("\n\n"):
            yield path, text.count("\n"), "blank line at the end"
        is_source = path.endswith(CPP + (".py", ".sh", ".cmake", "CMakeLists.txt"))
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line and is_source:
                yield path, number, "tab"
            if line != line.rstrip() and not path.endswith((".json", ".jsonl", ".csv")):
                yield path, number, "white space at the end of the line"
            if is_source and len(line) > COLUMNS_MAX:
                yield path, number, f"{len(line)} columns, more than {COLUMNS_MAX}"


def purpose_of(path, text):
    """The file's first comment as one line, empty if there is none."""
    lines = text.split("\n")
    if lines[0].startswith("#!"):
        lines = lines[1:]
    if path.endswith(".py"):
        match = re.match(r'\s*"""(.*?)"""', "\n".join(lines), re.S)
        return " ".join(match[1].split()) if match else ""
    mark = "//" if path.endswith(CPP) else "#"
    comment = []
    for line in lines:
        if not line.startswith(mark):
            break
        comment.append(line[len(mark) :].strip())
    return " ".join(comment)


def check_purpose(tree):
    for path, text in tree.texts.items():
        if path.endswith(CPP + (".py", ".sh")) or path in (".ci/run",):
            purpose = purpose_of(path, text)
            if not re.match(r"[A-Za-z0-9~`<].{10,}?[.:](\s|$)", purpose):
                yield path, 1, "the first comment must be a sentence of purpose"
        if path.endswith((".h", ".cuh")) and "#pragma once" not in text:
            yield path, 1, "no #pragma once"


def check_dead_files(tree):
    includes = set()
    for path in tree.cpp_files():
        includes.update(re.findall(r'#\s*include\s+"([^"]+)"', tree.texts[path]))
    for path in tree.texts:
        folder, name = os.path.split(path)
        if set(folder.split("/")) & BANNED_FOLDERS:
            yield path, 1, "a folder name that says nothing"
        if path.endswith((".cc", ".cu")):
            if not is_named(tree, path):
                yield path, 1, "not named in a CMakeLists.txt"
        if path.startswith("src/") and name.endswith(".h") and path[4:] not in includes:
            yield path, 1, "nobody includes this header"


def is_named(tree, path):
    """Whether a CMakeLists.txt above the file, comments apart, names it, with or without ending."""
    place = os.path.dirname(path)
    while place:
        code = re.sub(r"#[^\n]*", "", tree.texts.get(f"{place}/CMakeLists.txt", ""))
        name = re.escape(os.path.splitext(path[len(place) + 1 :])[0])
        if re.search(rf"(?<![\w./-]){name}(\.\w+)?(?![\w./-])", code):
            return True
        place = os.path.dirname(place)
    return False


def check_constructs(tree):
    allowed = {}
    for construct, files in tree.rules.get("allowed", []):
        allowed.setdefault(construct, []).extend(files)
    for path in tree.cpp_files():
        # A factory of a class with a private constructor hands it to its owner in one expression.
        code = re.sub(r"(unique_ptr<[^;{}]*>\(\s*)new\b", r"\1   ", strip_code(tree.texts[path]))
        code = code.split("\n")
        banned = dict(BANNED)
        if path.startswith("tests/"):
            banned.update(BANNED_IN_TESTS)
        for construct, (pattern, instead) in banned.items():
            if any(fnmatch.fnmatchcase(path, glob) for glob in allowed.get(construct, [])):
                continue
            for number, line in enumerate(code, 1):
                if re.search(pattern, line) and not line.lstrip().startswith("#include"):
                    yield path, number, f"{construct}: use {instead}"
        for number, line in enumerate(code, 1):
            if re.match(r"\s*#\s*if\s+(0|false)\b", line):
                yield path, number, "code behind #if 0"
            if "DISABLED_" in line:
                yield path, number, "a disabled test"


def check_comments(tree):
    for path, text in tree.texts.items():
        if not path.endswith(CPP + (".py", ".sh", ".cmake", "CMakeLists.txt")):
            continue
        if path.endswith(("tidy/tidy.py", "tidy/tidy_test.py")):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r"\bNOLINT\w*(?!\w|\([a-z])", line):
                yield path, number, "NOLINT without the name of a check"
            if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line):
                yield path, number, "a TODO without an issue number: TODO(#12)"
            if path.endswith(CPP) and re.match(r"\s*(//|/\*)\s*(TEST|RC_GTEST)\w*\(", line):
                yield path, number, "a test that is commented out"


def check_words(tree):
    """Words that docs/glossary.md sets in code type in its last column, as parts of identifiers."""
    glossary = {}
    for line in tree.texts.get("docs/glossary.md", "").split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            for synonym in re.findall(r"`([a-z_]+)`", cells[2]):
                glossary[synonym] = cells[0]
    if not glossary:
        return
    pattern = re.compile("_(" + "|".join(sorted(glossary)) + ")_")
    for path in tree.cpp_files():
        for number, line in enumerate(strip_code(tree.texts[path]).split("\n"), 1):
            for identifier in re.findall(r"[A-Za-z_]\w*", line):
                parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", identifier).lower()
                match = pattern.search(f"_{parts}_")
                if match:
                    word = glossary[match[1]]
                    yield path, number, f"{identifier}: we say {word} (docs/glossary.md)"


def slugs(text):
    """The anchors that GitHub gives a document's headings."""
    headings = (heading.strip().lower() for heading in re.findall(r"(?m)^#+ (.*)", text))
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading)) for heading in headings}


def check_documents(tree):
    for path, text in tree.texts.items():
        if not path.endswith(".md"):
            continue
        folder = os.path.dirname(path)
        for number, line in enumerate(text.split("\n"), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                full = os.path.normpath(os.path.join(folder, file)) if file else path
                if not tree.exists(full):
                    yield path, number, f"dead link: {target}"
                elif anchor and anchor not in slugs(tree.texts[full]):
                    yield path, number, f"dead link: no heading for #{anchor}"
            for target in re.findall(r"`((?:%s)/[\w./-]+)`" % "|".join(TOP_FOLDERS[:8]), line):
                if not tree.exists(target):
                    yield path, number, f"no such file: {target}"


def snippet(tree, path, name):
    """The lines between // [name] and // [/name] of a source, less their common indentation."""
    text = tree.texts.get(path, "")
    mark = re.escape(name)
    match = re.search(rf"(?ms)^ *// \[{mark}\]\n(.*?)^ *// \[/{mark}\]$", text)
    return textwrap.dedent(match[1]) if match else None


def check_snippets(tree):
    """C++ in documents is cut from a source that is compiled: "<!-- PATH: NAME -->" above it."""
    for path, text in tree.texts.items():
        if not path.endswith(".md"):
            continue
        for match in re.finditer(r"(?ms)^(?:<!-- (\S+): (\S+) -->\n)?```cpp\n(.*?)^```", text):
            number = text.count("\n", 0, match.start()) + 1
            source, name, shown = match.groups()
            if source is None:
                yield path, number, "C++ without the source that it is cut from"
                continue
            cut = snippet(tree, source, name)
            if cut is None:
                yield path, number, f"no part [{name}] in {source}"
            elif cut != shown:
                yield path, number, f"differs from part [{name}] of {source}"


def check_commands(tree):
    """README's commands: scripts that exist and can be run, presets that exist."""
    presets = set()
    if "CMakePresets.json" in tree.texts:
        for kind, entries in json.loads(tree.texts["CMakePresets.json"]).items():
            if kind.endswith("Presets"):
                presets.update(entry["name"] for entry in entries)
    for path in ("README.md", "CONTRIBUTING.md"):
        for number, line in enumerate(tree.texts.get(path, "").split("\n"), 1):
            for script in re.findall(r"(?<![\w/.])((?:tools|tests)/[\w./-]+\.(?:sh|py))", line):
                if not os.access(os.path.join(tree.root, script), os.X_OK):
                    yield path, number, f"command {script} is not there or not executable"
            for preset in re.findall(r"--preset[ =](\w+)", line):
                if preset not in presets:
                    yield path, number, f"preset {preset} is not in CMakePresets.json"


def check_lint_names(tree):
    """clang-tidy ignores names it does not know, so each must match one that it lists."""
    program = shutil.which("clang-tidy-14")
    if ".clang-tidy" not in tree.texts or not program:
        return
    command = [program, "--list-checks", "--checks=*"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    listed = result.stdout.split()[2:]
    text = tree.texts[".clang-tidy"]
    wanted = text.partition("Checks:")[2].partition("WarningsAsErrors")[0]
    for name in re.findall(r"-?[a-z*][\w*.-]+", wanted):
        if name not in ("-*", "*") and not fnmatch.filter(listed, name.lstrip("-")):
            yield ".clang-tidy", 1, f"no check of clang-tidy 14 is called {name}"
    for key in re.findall(r"key:\s*([\w-]+)\.", text):
        if key not in listed:
            yield ".clang-tidy", 1, f"no check of clang-tidy 14 is called {key}"


def sizes(tree):
    """Files and functions above the sizes aimed at: questions, not failures."""
    for path in tree.cpp_files() + [p for p in tree.texts if p.endswith(".py")]:
        lines = tree.lines(path)
        if len(lines) - 1 > FILE_LINES_MAX:
            yield path, 1, f"{len(lines) - 1} lines"
        start = None
        for number, line in enumerate(lines if path.endswith(CPP) else [], 1):
            if re.match(r"( {2})?[A-Za-z~].*\)[^;]*\{$", line) and not line.startswith("namespace"):
                start = (number, re.match(r" *", line)[0])
            elif start and line == start[1] + "}":
                if number - start[0] > FUNCTION_LINES_MAX:
                    yield path, start[0], f"a function of {number - start[0]} lines"
                start = None


CHECKS = (
    check_layers,
    check_pure,
    check_homes,
    check_text,
    check_purpose,
    check_dead_files,
    check_constructs,
    check_comments,
    check_words,
    check_documents,
    check_snippets,
    check_commands,
    check_lint_names,
)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), "..", ".."))
    parser.add_argument("--only", nargs="+", metavar="FILE", help="report only these files")
    options = parser.parse_args(arguments)
    tree = Tree(os.path.abspath(options.root))

    findings = sorted({finding for check in CHECKS for finding in check(tree)})
    if options.only:
        findings = [finding for finding in findings if finding[0] in options.only]
    else:
        for path, number, text in sizes(tree):
            print(f"large: {path}:{number}: {text}")
    for path, number, text in findings:
        print(f"{path}:{number}: {text}")
    if findings:
        print(f"tidy: {len(findings)} findings in {len(tree.texts)} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
