// Tuning: what is measured, compared, taken, kept, and found again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "heddle/simulation.hpp"
#include "jit/system/inside.hpp"
#include "runtime/tune/tuning.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/runtime/tuning_fixture.hpp"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// W3: the fastest is taken, here and by backends that open the folder later: these measure nothing
TEST_F(TuningTest, IsKeptAndFoundAgain) {
  const Backend backend = Backend::open(options());
  EXPECT_FALSE(packs(backend.compile(program_, asked_)));
  const TunedSchedule made = tuned_by_fakes(backend);
  ASSERT_GT(made.candidates.size(), 2u);
  EXPECT_TRUE(made.measured);
  EXPECT_EQ(made.choices().pack_b, true);
  EXPECT_NEAR(made.candidates[made.best].ratio, 0.5, 1e-9);
  EXPECT_EQ(made.problem, "");
  EXPECT_THAT(files(), testing::ElementsAre(fs::path(made.file)));
  const Code here = backend.compile(program_, asked_);
  EXPECT_TRUE(packs(here));

  const Backend later = Backend::open(options());
  CompileOptions measure = asked_;
  measure.tune.mode = Tune::measure;
  const Code there = later.compile(program_, measure);
  EXPECT_EQ(there.hash(), here.hash());
  EXPECT_EQ(opened(later), 0) << "something was measured";
  EXPECT_EQ(later.compile_counters().compiled, 0u);
  const auto known = later.tuned(program_, asked_);
  ASSERT_TRUE(known);
  EXPECT_FALSE(known->measured);
  EXPECT_EQ(known->candidates, made.candidates);
  EXPECT_THAT(logged_, IsEmpty());
}

// W3: whatever compiles takes it, and nothing but that program as it was asked for
TEST_F(TuningTest, IsTakenByAllWaysToCompile) {
  const Backend backend = Backend::open(options());
  static_cast<void>(tuned_by_fakes(backend));
  EXPECT_TRUE(packs(backend.compile_async(program_, asked_).get()));
  const BatchOptions batch{.each = asked_};
  const std::vector<Program> one{program_};
  EXPECT_TRUE(packs(*backend.compile_batch(one, batch)[0]));
  EXPECT_TRUE(packs(*backend.compile_batch_async(one, batch).get()[0]));
  CompileOptions off = asked_;
  off.tune.mode = Tune::off;
  EXPECT_FALSE(packs(backend.compile(program_, off)));
  CompileOptions others = asked_;
  others.schedule_without = {ScheduleStep::stream};
  EXPECT_FALSE(packs(backend.compile(program_, others)));
  others = asked_;
  others.tune.reassociate = true;
  EXPECT_FALSE(packs(backend.compile(program_, others))) << "kept apart";
  BackendOptions without = options();
  without.tune = Tune::off;
  EXPECT_FALSE(packs(Backend::open(without).compile(program_, asked_)));
}

// W3: choices can be given outright; what no schedule could use is refused
TEST_F(TuningTest, ChoicesCanBeGiven) {
  const Backend backend = Backend::open(options());
  CompileOptions given;
  given.choices = ScheduleChoices::parse("tile 3x1; pack b");
  const Code code = backend.compile(program_, given);
  EXPECT_THAT(code.loop_text(), HasSubstr("contraction: tiles of 3 x "));
  EXPECT_TRUE(packs(code));
  EXPECT_FALSE(packs(backend.compile(program_))) << "one code for two";
  given.choices.tile->rows = 1000;
  const Status status = failure([&] { static_cast<void>(backend.compile(program_, given)); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(), HasSubstr("1000 rows of 1 vectors"));
}

// W3: what asks to be measured is, once, whatever way it is compiled
TEST_F(TuningTest, MeasuresWhenAsked) {
  BackendOptions wanted = options();
  wanted.tune = Tune::measure;
  const Backend backend = Backend::open(wanted);
  static_cast<void>(backend.compile(program_, asked_));
  EXPECT_EQ(opened(backend), 1);
  ASSERT_TRUE(backend.tuned(program_, asked_));
  EXPECT_FALSE(backend.tuned(program_, asked_)->measured) << "not now";
  static_cast<void>(backend.compile(program_, asked_));
  static_cast<void>(backend.compile_async(program_, asked_).get());
  EXPECT_EQ(opened(backend), 1);

  const fs::path other = directory_.path() / "other";
  wanted.cache_dir = other.string();
  wanted.name = "cc";
  const Backend threads = Backend::open(wanted);
  static_cast<void>(threads.compile_async(program_, asked_).get());
  EXPECT_TRUE(threads.tuned(program_, asked_));
  Program twice("twice");
  const Index i, j;
  twice << (c_(i, j) = 2 * c_(i, j));
  BatchOptions batch{.each = asked_};
  int asks = 0;
  batch.occupancy = [&asks](const std::string& name, std::size_t) {
    ++asks;
    return name == "twice";
  };
  const CodeBatch made = threads.compile_batch(std::vector<Program>{program_, twice}, batch);
  EXPECT_FALSE(made[0]);
  EXPECT_TRUE(made[1]);
  EXPECT_EQ(asks, 2);
  EXPECT_TRUE(threads.tuned(twice, asked_));
}

// W3, F5: functions are tuned as programs are
TEST_F(TuningTest, OfExecutors) {
  const Backend backend = Backend::open(options());
  const Device device = backend.physical_device(0).new_virtual_device();
  ExecutorOptions wanted{.name = "doubled", .compile = {.tune = {.mode = Tune::measure}}};
  Executor twice(device, [](Node x) { return x + x; }, wanted);
  const HostArray x = HostArray::fill({f32, {64}}, std::vector<double>{1, 2});
  EXPECT_EQ(twice(Array(device, x)).values<float>()[1], 4);
  EXPECT_THAT(files(), SizeIs(1));
}

// W3, bad input: of another machine, damaged, or of a later version: told once, and not used
TEST_F(TuningTest, FilesThatAreNotUsedAreTold) {
  fs::path file;
  {
    const Backend backend = Backend::open(options());
    file = tuned_by_fakes(backend).file;
  }
  BackendOptions narrower = options();
  narrower.isa = "portable";
  const Backend other = Backend::open(narrower);
  EXPECT_FALSE(packs(other.compile(program_, asked_))) << "has a file of its own";
  EXPECT_THAT(logged_, IsEmpty());
  const fs::path others = tuned_by_fakes(other).file;
  ASSERT_NE(others, file);
  fs::copy_file(others, file, fs::copy_options::overwrite_existing);
  {
    const Backend backend = Backend::open(options());
    EXPECT_FALSE(packs(backend.compile(program_, asked_)));
    EXPECT_FALSE(packs(backend.compile(program_, asked_)));
    EXPECT_FALSE(backend.tuned(program_, asked_));
  }
  ASSERT_THAT(logged_, SizeIs(1));
  EXPECT_THAT(logged_[0], AllOf(HasSubstr(file.string()), HasSubstr("another machine's"),
                                HasSubstr("heddle tune FILE")));
  std::ofstream(file, std::ios::app) << "more";
  EXPECT_FALSE(packs(Backend::open(options()).compile(program_, asked_)));
  ASSERT_THAT(logged_, SizeIs(2));
  EXPECT_THAT(logged_[1], HasSubstr("it is damaged"));
  const Backend anew = Backend::open(options());
  static_cast<void>(tuned_by_fakes(anew));
  EXPECT_TRUE(packs(Backend::open(options()).compile(program_, asked_))) << "written anew";
}

// W3, bad input: where nothing can be kept that is told, and what was found serves this backend
TEST_F(TuningTest, WithoutAFolderItServesThisBackend) {
  std::ofstream(directory_.path() / "file") << "no folder";
  BackendOptions below = options();
  below.cache_dir = (directory_.path() / "file" / "cache").string();
  const Backend backend = Backend::open(below);
  const TunedSchedule made = tuned_by_fakes(backend);
  EXPECT_EQ(made.file, "");
  EXPECT_THAT(made.problem, AllOf(HasSubstr("cannot be kept in"), HasSubstr(*below.cache_dir)));
  EXPECT_TRUE(packs(backend.compile(program_, asked_)));
  EXPECT_FALSE(packs(Backend::open(below).compile(program_, asked_)));

  BackendOptions off = options();
  off.cache = false;
  const Backend none = Backend::open(off);
  EXPECT_THAT(tuned_by_fakes(none).problem, HasSubstr("no kernel cache"));
  EXPECT_TRUE(packs(none.compile(program_, asked_)));
  EXPECT_FALSE(fs::exists(folder_));

  logged_.clear();
  CompileOptions measure = asked_;
  measure.tune.mode = Tune::measure;
  static_cast<void>(Backend::open(off).compile(program_, measure));
  EXPECT_THAT(logged_, Contains(HasSubstr("serves this backend alone")));
}

// W3, bad input: a folder that others may write is not used
TEST_F(TuningTest, ReadOnlyFoldersAreTold) {
  const Backend backend = Backend::open(options());
  fs::create_directories(folder_);
  chmod(folder_.c_str(), 0777);
  EXPECT_THAT(tuned_by_fakes(backend).problem, HasSubstr("others may write it"));
  EXPECT_TRUE(packs(backend.compile(program_, asked_)));
  EXPECT_THAT(files(), IsEmpty());
}

// W3: where only the host polls, an asynchronous compile does not wait for what it would
// measure
TEST_F(TuningTest, AsynchronousCompilesOfManualDevicesMeasureNothing) {
  BackendOptions manual = options();
  manual.mode = sched::Mode::manual;
  const Backend backend = Backend::open(manual);
  CompileOptions measure = asked_;
  measure.tune.mode = Tune::measure;
  EXPECT_FALSE(packs(backend.compile_async(program_, measure).get()));
  const std::vector one{program_};
  BatchOptions batch;
  batch.each = measure;
  EXPECT_FALSE(packs(*backend.compile_batch_async(one, batch).get()[0]));
  EXPECT_THAT(logged_, Contains(AllOf(HasSubstr("compile_async() of 'product' measures nothing"),
                                      HasSubstr("manual"))));
  EXPECT_EQ(opened(backend), 0);
}

// W3: measuring takes half of a compile's timeout; what is left is for the program itself
TEST_F(TuningTest, MeasuringLeavesTimeForTheCompile) {
  const Backend backend = Backend::open(options());
  CompileOptions measure = asked_;
  measure.tune.mode = Tune::measure;
  measure.timeout = std::chrono::nanoseconds(10);
  const Status status = failure([&] { static_cast<void>(backend.compile(program_, measure)); });
  EXPECT_EQ(status.code(), ErrorCode::deadline);
  measure.timeout = std::chrono::minutes(1);
  measure.tune.budget = std::chrono::hours(1);
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(backend.compile(program_, measure));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  ASSERT_TRUE(backend.tuned(program_, asked_));
  EXPECT_FALSE(backend.tuned(program_, asked_)->measured);
}

// W3, bad input: a budget that is too small for one candidate keeps nothing, and says so
TEST_F(TuningTest, TooSmallABudgetKeepsNothing) {
  const Backend backend = Backend::open(options());
  CompileOptions hasty = asked_;
  hasty.tune.budget = std::chrono::nanoseconds(1);
  const TunedSchedule made = backend.tune(program_, hasty);
  EXPECT_TRUE(made.too_short);
  EXPECT_EQ(made.best, 0u);
  EXPECT_EQ(made.file, "");
  EXPECT_FALSE(backend.tuned(program_, asked_));
  EXPECT_THAT(logged_, IsEmpty());
  hasty.tune.mode = Tune::measure;
  EXPECT_FALSE(packs(backend.compile(program_, hasty)));
  EXPECT_THAT(logged_, Contains(AllOf(HasSubstr("tuning 'product'"), HasSubstr("too short"),
                                      HasSubstr("TuneOptions::budget"))));
  EXPECT_FALSE(fs::exists(folder_) && !files().empty());
  hasty.tune.budget = std::chrono::nanoseconds(0);
  const Status none = failure([&] { static_cast<void>(backend.tune(program_, hasty)); });
  EXPECT_EQ(none.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(none.to_string(), HasSubstr("tune.budget is 0 ns"));
  hasty.tune.mode = Tune::kept;
  EXPECT_EQ(failure([&] { static_cast<void>(backend.compile(program_, hasty)); }).code(),
            ErrorCode::invalid_argument)
      << "though nothing is measured";
}

// W3: what was kept is told to those that would take it
TEST_F(TuningTest, IsToldToThoseThatTakeIt) {
  const Backend backend = Backend::open(options());
  static_cast<void>(backend.tune(program_, asked_));
  EXPECT_TRUE(backend.tuned(program_, asked_));
  CompileOptions off = asked_;
  off.tune.mode = Tune::off;
  EXPECT_FALSE(backend.tuned(program_, off));
  BackendOptions never = options();
  never.tune = Tune::off;
  const Backend other = Backend::open(never);
  EXPECT_FALSE(other.tuned(program_, asked_));
  off.tune.mode = Tune::kept;
  EXPECT_TRUE(other.tuned(program_, off));
}

// W3, bad input: what leaves nothing to choose is refused; so are simulations, whose compiles go on
TEST_F(TuningTest, NothingToChooseIsRefused) {
  const Backend backend = Backend::open(options());
  const auto refused = [&](const Backend& by, const CompileOptions& asked) {
    return failure([&] { static_cast<void>(by.tune(program_, asked)); }).code() ==
           ErrorCode::failed_precondition;
  };
  CompileOptions off, traced, chosen;
  off.schedule = Schedule::off;
  traced.trace_values = true;
  chosen.choices.pack_a = true;
  EXPECT_TRUE(refused(backend, off) && refused(backend, traced) && refused(backend, chosen));
  EXPECT_FALSE(backend.tuned(program_, off));
  Simulation simulation({.seed = 1});
  BackendOptions simulated = options();
  simulated.name = "cc";
  simulated.scheduler = simulation.scheduler();
  simulated.tune = Tune::measure;
  const Backend inside = Backend::open(simulated);
  EXPECT_TRUE(refused(inside, asked_));
  EXPECT_FALSE(packs(inside.compile(program_, asked_)));
}

// W3: the model's choice stays, and is kept, where no other is faster: it is not measured again
TEST_F(TuningTest, TheModelsChoiceMayBeTheBest) {
  const Backend backend = Backend::open(options());
  rt::TuneTools slower = fake_times();
  slower.seconds = [](const ScheduleChoices& choices, const std::function<void()>& run) {
    run();
    return choices.empty() ? 1.0 : 1.2;
  };
  const TunedSchedule made = rt::tune(Inside::of(backend), program_, asked_, slower);
  EXPECT_EQ(made.best, 0u);
  EXPECT_FALSE(made.too_short);
  const Backend later = Backend::open(options());
  CompileOptions measure = asked_;
  measure.tune.mode = Tune::measure;
  EXPECT_FALSE(packs(later.compile(program_, measure)));
  EXPECT_EQ(opened(later), 0);
}

// W3: a candidate that fails the compiler is left out, and costs no other, though all of them are
// compiled together
TEST_F(TuningTest, WhatDoesNotCompileIsLeftOut) {
  const fs::path compiler = directory_.path() / "cc";
  std::ofstream(compiler) << R"(#!/bin/sh
for file; do case $file in *.c) grep -q 'b packed by' "$file" && exit 1;; esac; done
exec cc "$@"
)";
  ASSERT_EQ(chmod(compiler.c_str(), 0755), 0);
  BackendOptions picky = options();
  picky.cc = compiler.string();
  const TunedSchedule made = tuned_by_fakes(Backend::open(picky));
  std::size_t failed = 0, measured = 0;
  for (const TunedCandidate& each : made.candidates) {
    const bool packs_b = each.choices.pack_b.value_or(false);
    EXPECT_EQ(each.verdict, packs_b ? TuneVerdict::failed : TuneVerdict::measured)
        << each.choices.to_string();
    ++(packs_b ? failed : measured);
  }
  EXPECT_GE(failed, 1u);
  EXPECT_GE(measured, 2u);
  EXPECT_NE(made.choices().pack_b, true);
}

}  // namespace
}  // namespace heddle
