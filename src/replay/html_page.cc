// Runs the page's script: which interpreter, and what its failures mean.
#include "replay/html_page.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/child_process.h"
#include "base/file.h"

namespace kvferry::replay {
namespace {

// The script's exit code for "no matplotlib here", as opposed to a failure of its own.
constexpr int kNoMatplotlib = 3;
constexpr std::size_t kPageBytesMax = std::size_t{1} << 20;
constexpr std::uint32_t kDrawTimeoutMs = 300'000;
constexpr std::size_t kReasonBytesMax = 2000;

// The last lines of what a program said, without line ends at the end: Python puts the reason last.
std::string Reason(const ChildOutcome& outcome) {
  std::string_view text = outcome.error_output;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  if (text.size() > kReasonBytesMax) {
    text.remove_prefix(text.size() - kReasonBytesMax);
  }
  if (outcome.signal != 0) {
    return "it was ended by signal " + std::to_string(outcome.signal);
  }
  return text.empty() ? "it ended with exit code " + std::to_string(outcome.exit_code)
                      : std::string(text);
}

Status CheckScript(const std::string& path) {
  if (::access(path.c_str(), R_OK) == 0) {
    return Status::Ok();
  }
  return Status::Error(StatusCode::kInvalidArgument,
                       "no HTML page: cannot read its script \"" + path +
                           "\": " + std::error_code(errno, std::generic_category()).message() +
                           "; install kvferry's share folder, or leave --html out",
                       errno);
}

// Runs the script under the first interpreter that has matplotlib. An outcome is a run that got
// past the import, successful or not.
Result<ChildOutcome> RunScript(const PageScript& script,
                               const std::vector<std::string>& options,
                               std::string_view input) {
  KVFERRY_RETURN_IF_ERROR(CheckScript(script.path));
  std::string tried;
  for (const std::string& interpreter : script.interpreters) {
    ChildCommand command;
    // -B: a folder that is only read, or shared by versions, gets no compiled copies.
    command.arguments = {interpreter, "-B", script.path};
    command.arguments.insert(command.arguments.end(), options.begin(), options.end());
    command.input = input;
    command.output_bytes_max = kPageBytesMax;
    command.timeout_ms = kDrawTimeoutMs;
    Result<ChildOutcome> outcome = RunChild(command);
    if (outcome.has_value() && outcome->signal == 0 && outcome->exit_code != kNoMatplotlib) {
      return outcome;
    }
    if (!outcome.has_value() && outcome.error().code() != StatusCode::kInvalidArgument) {
      return outcome.error().WithContext("no HTML page");
    }
    tried.append("\n  ").append(interpreter).append(": ");
    tried.append(outcome.has_value() ? Reason(*outcome) : std::string(outcome.error().message()));
  }
  return Status::Error(StatusCode::kInvalidArgument,
                       "no HTML page: it is drawn by Python's matplotlib, and no interpreter here "
                       "has it; install python3-matplotlib, or leave --html out. Tried:" +
                           tried);
}

Status ScriptFailed(const PageScript& script, const ChildOutcome& outcome) {
  return Status::Error(
      StatusCode::kInternal,
      "no HTML page: \"" + script.path + "\" failed: " + Reason(outcome) +
          "; leave --html out, or report this with what --json prints for the same run");
}

}  // namespace

Status CheckHtmlPossible(const PageScript& script) {
  KVFERRY_ASSIGN_OR_RETURN(const ChildOutcome outcome, RunScript(script, {"--check"}, {}));
  return outcome.exit_code == 0 ? Status::Ok() : ScriptFailed(script, outcome);
}

Status CheckHtmlPossible(const std::string& script_path) {
  return CheckHtmlPossible(PageScript{.path = script_path});
}

Status WriteHtmlPage(const std::string& json,
                     const PageScript& script,
                     const std::string& output_path) {
  KVFERRY_ASSIGN_OR_RETURN(const ChildOutcome outcome, RunScript(script, {}, json));
  if (outcome.exit_code != 0) {
    return ScriptFailed(script, outcome);
  }
  // Cheap proof that the page is complete: a script that died without a word is not a page.
  if (!std::string_view(outcome.output).ends_with("</html>\n")) {
    return Status::Error(StatusCode::kInternal,
                         "no HTML page: \"" + script.path + "\" did not finish it");
  }
  return WriteFileAtomically(output_path, outcome.output);
}

Status WriteHtmlPage(const std::string& json,
                     const std::string& script_path,
                     const std::string& output_path) {
  return WriteHtmlPage(json, PageScript{.path = script_path}, output_path);
}

}  // namespace kvferry::replay
