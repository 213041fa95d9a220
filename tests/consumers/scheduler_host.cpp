// A host that uses the scheduler alone: no tensor, no JIT. Built outside the tree against the
// installed library; exits with 1 when a promise does not hold.
#include <heddle/scheduler.hpp>

#include <cstdio>
#include <stdexcept>
#include <unordered_set>

namespace {

int loaded_value = 0;
int result = 0;

void load() { loaded_value = 20; }
void step() { result = loaded_value + 1; }

bool require(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "scheduler_host: %s\n", what);
  return holds;
}

}  // namespace

int main() {
  heddle::Scheduler scheduler;
  auto io = scheduler.new_device("io"), work = scheduler.new_device("work");
  auto loaded = io.submit("load", [&] { load(); });
  work.wait(loaded);
  work.submit("step", [&] { step(); }).wait();
  if (!require(result == 21, "step did not wait for load")) return 1;

  // Failures cross the library's border with their text.
  const heddle::Event failed =
      work.submit("bad step", [] { throw std::runtime_error("broken sensor"); });
  const std::string text = failed.wait().to_string();
  const bool named =
      text.find("bad step") != std::string::npos && text.find("broken sensor") != std::string::npos;
  if (!require(named, "the failure does not name its task and cause")) return 1;
  if (!require(work.recover().ok(), "recover() failed")) return 1;
  if (!require(work.submit("step", [&] { step(); }).wait().ok(), "no step after recover()"))
    return 1;
  const std::unordered_set<heddle::EventId> seen{loaded.id(), failed.id(), loaded.id()};
  if (!require(seen.size() == 2, "identities of events are not hashed")) return 1;
  std::puts("scheduler_host: ok");
  return 0;
}
