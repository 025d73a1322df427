// Processes that run seeds, and what becomes of one that dies.
#include "stress/sim_batch.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <vector>

#include "base/assert.h"
#include "base/file.h"

namespace kvferry::stress {
namespace {

constexpr std::size_t kTextMax = 4'096;

// What a child tells, in memory that it shares with its parent.
struct Report {
  std::atomic<std::uint64_t> seeds_done = 0;
  SimProgress progress;  // Of the seed at hand.
  SimBatchOutcome sums;
};

// A page or more of memory that a child inherits and both see.
class SharedReport {
 public:
  SharedReport()
      : memory_(::mmap(
            nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ != MAP_FAILED) {
      report_ = ::new (memory_) Report;
    }
  }
  SharedReport(const SharedReport&) = delete;
  SharedReport& operator=(const SharedReport&) = delete;
  ~SharedReport() {
    if (memory_ != MAP_FAILED) {
      ::munmap(memory_, sizeof(Report));
    }
  }
  Report* get() const { return report_; }

 private:
  void* memory_;
  Report* report_ = nullptr;
};

struct Child {
  pid_t pid = -1;
  std::uint64_t first_seed = 0;
  std::uint64_t seeds = 0;
  std::uint32_t operations = 0;
  FileDescriptor errors = {};  // What it writes to standard error.
};

void RunInChild(const SimBatchOptions& options, const Child& child, Report& report) {
  for (std::uint64_t seed = child.first_seed; seed < child.first_seed + child.seeds; ++seed) {
    ::alarm(options.seed_seconds_max);  // Ends the process, which is then a violation.
    SimOptions one;
    one.seed = seed;
    one.operations = child.operations;
    one.faults = options.faults;
    one.power_cuts = options.power_cuts;
    one.manifest_folder = options.manifest_folder;
    if (!options.nth_faults.empty()) {
      one.seed = options.script_seed;
      one.is_script = true;
      one.nth_fault = options.nth_faults.at(seed - options.first_seed);
    }
    const SimOutcome outcome = SimWorld(one).Run(report.progress);
    if (seed % 100 < options.repeated_percent) {
      SimProgress ignored;
      if (SimWorld(one).Run(ignored).digest != outcome.digest) {
        std::fprintf(stderr, "violation: seed %llu: a second run went another way\n",
                     static_cast<unsigned long long>(seed));
        std::abort();
      }
    }
    report.sums.counts += outcome.counts;
    report.sums.faults += outcome.faults;
    ++report.seeds_done;
  }
}

Status Fork(const SimBatchOptions& options, Child& child, Report& report) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    return Status::Error(StatusCode::kIoError, "make a pipe for a run", errno);
  }
  child.errors = FileDescriptor(ends[0]);
  FileDescriptor child_end(ends[1]);
  child.pid = ::fork();
  if (child.pid < 0) {
    return Status::Error(StatusCode::kIoError, "start a process for a run", errno);
  }
  if (child.pid == 0) {
    ::dup2(child_end.fd(), STDERR_FILENO);
    RunInChild(options, child, report);
    ::_exit(0);
  }
  return Status::Ok();
}

std::string ReadAll(const FileDescriptor& from) {
  std::string text(kTextMax, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(from.fd(), text.data() + size, text.size() - size);
    if (got <= 0) {
      break;
    }
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

// Empty if the child ended well.
std::string AwaitEnd(Child& child) {
  std::string text = ReadAll(child.errors);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    text += "the run did not end in time\n";
  }
  return text.empty() ? "the process died without a word\n" : text;
}

// Whether the seed shows a violation within so many operations; what it says then.
Result<std::string> Try(const SimBatchOptions& options,
                        std::uint64_t seed,
                        std::uint32_t operations) {
  const SharedReport report;
  if (report.get() == nullptr) {
    return Status::Error(StatusCode::kResourceExhausted, "no memory to share with a run");
  }
  Child child{.first_seed = seed, .seeds = 1, .operations = operations};
  KVFERRY_RETURN_IF_ERROR(Fork(options, child, *report.get()));
  return AwaitEnd(child);
}

// Tries to show the violation with fewer operations: first those that had begun when it showed,
// then half of them and so on, since what a run does at its end may show it earlier.
Status Shrink(const SimBatchOptions& options, std::uint32_t reached, SimViolation& violation) {
  std::uint32_t low = 0;
  std::uint32_t tried = std::max(1U, reached);
  while (violation.operations - low > 1) {
    tried = std::clamp(tried, low + 1, violation.operations - 1);
    KVFERRY_ASSIGN_OR_RETURN(std::string text, Try(options, violation.seed, tried));
    if (text.empty()) {
      low = tried;
    } else {
      violation.operations = tried;
      violation.text = std::move(text);
    }
    tried = low + (violation.operations - low) / 2;
  }
  return Status::Ok();
}

// The seeds that are still to be run, and what came of those that were.
class Batch {
 public:
  Batch(const SimBatchOptions& options, FunctionRef<void(std::uint64_t)> on_progress)
      : options_(options), on_progress_(on_progress), next_(options.first_seed) {}

  Status Run() {
    std::vector<Child> running;
    std::vector<SharedReport> reports(options_.jobs);
    running.resize(options_.jobs);
    // Children of one round end about together: they have the same amount of work.
    while (next_ < End()) {
      std::uint32_t started = 0;
      for (; started < options_.jobs && next_ < End(); ++started) {
        if (reports[started].get() == nullptr) {
          return Status::Error(StatusCode::kResourceExhausted, "no memory to share with a run");
        }
        ::new (reports[started].get()) Report;
        running[started].first_seed = next_;
        running[started].seeds = std::min(options_.seeds_per_process, End() - next_);
        running[started].operations = options_.operations;
        next_ += running[started].seeds;
        KVFERRY_RETURN_IF_ERROR(Fork(options_, running[started], *reports[started].get()));
      }
      for (std::uint32_t i = 0; i < started; ++i) {
        KVFERRY_RETURN_IF_ERROR(Collect(running[i], *reports[i].get()));
      }
    }
    return Status::Ok();
  }

  SimBatchOutcome& outcome() { return outcome_; }

 private:
  std::uint64_t End() const { return options_.first_seed + options_.seeds; }

  Status Collect(Child& child, Report& report) {
    const std::string text = AwaitEnd(child);
    const std::uint64_t done = report.seeds_done;
    outcome_.counts += report.sums.counts;
    outcome_.faults += report.sums.faults;
    outcome_.seeds += done;
    if (text.empty()) {
      on_progress_(outcome_.seeds);
      return Status::Ok();
    }
    ++outcome_.seeds;
    ++outcome_.violations;
    if (!outcome_.first) {
      outcome_.first = SimViolation{child.first_seed + done, options_.operations, text};
      if (options_.power_cuts == 0 && options_.nth_faults.empty()) {
        KVFERRY_RETURN_IF_ERROR(Shrink(
            options_, static_cast<std::uint32_t>(report.progress.operations), *outcome_.first));
      }
    }
    // The seeds behind the bad one, in a process of their own.
    Child rest{.first_seed = child.first_seed + done + 1,
               .seeds = child.seeds - done - 1,
               .operations = child.operations};
    if (rest.seeds == 0) {
      return Status::Ok();
    }
    ::new (&report) Report;
    KVFERRY_RETURN_IF_ERROR(Fork(options_, rest, report));
    return Collect(rest, report);
  }

  const SimBatchOptions& options_;
  FunctionRef<void(std::uint64_t)> on_progress_;
  std::uint64_t next_;
  SimBatchOutcome outcome_;
};

}  // namespace

Result<SimBatchOutcome> RunSimSeeds(const SimBatchOptions& options,
                                    FunctionRef<void(std::uint64_t)> on_progress) {
  KVFERRY_CHECK(options.jobs > 0 && options.operations > 0);
  Batch batch(options, on_progress);
  KVFERRY_RETURN_IF_ERROR(batch.Run());
  return std::move(batch.outcome());
}

}  // namespace kvferry::stress
