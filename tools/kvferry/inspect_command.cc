// `kvferry inspect`: what a store of the NVMe tier holds, also while an engine uses it.
#include <cstdint>
#include <ctime>

#include "commands.h"
#include "exit_code.h"
#include "store_survey.h"

namespace kvferry::tool {
namespace {

int RunInspect(const StoreArguments& arguments) {
  const Result<StoreSurvey> survey = TakeSurvey(arguments);
  if (!survey.ok()) {
    return ReportStatus(survey.error());
  }
  const std::int64_t now_unix_ms = std::int64_t{std::time(nullptr)} * 1000;
  const int printed =
      PrintOutput(arguments.is_json ? ToJson(*survey, arguments.lists_segments)
                                    : ToText(*survey, now_unix_ms, arguments.lists_segments));
  return printed == kExitOk && !survey->problems.empty() ? kExitFailure : printed;
}

}  // namespace

void AddInspectCommand(CLI::App& app, StoreArguments& arguments, int& exit_code) {
  CLI::App* inspect =
      app.add_subcommand("inspect", "Show what a store of the NVMe tier holds, also a live one");
  AddStoreOptions(*inspect, arguments);
  inspect->add_flag("--segments", arguments.lists_segments, "List every segment too");
  inspect->footer(
      "Reads superblocks and the manifest, or, where there is no manifest, the headers and footers "
      "of\nsegments. Takes no lock and changes nothing. Blocks are not read: kvferry fsck does "
      "that. "
      "Exit code 1\nwhen a problem was found, 2 for paths that are no drives. docs/store.md "
      "explains the lines.");
  inspect->callback([&arguments, &exit_code] { exit_code = RunInspect(arguments); });
}

}  // namespace kvferry::tool
