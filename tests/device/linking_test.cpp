// Contexts, linking, static indices, batches, memory modes at run time: J6 to J8 and the D clauses
// behind them.
#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class LinkingTest : public Conformance {};
HEDDLE_CONFORMANCE_SUITE(LinkingTest);

std::vector<float> iota(std::size_t n, float from = 0) {
  std::vector<float> v(n);
  for (std::size_t k = 0; k < n; ++k) v[k] = from + static_cast<float>(k);
  return v;
}

// J2, J7, J8, O27, B2: the README's program
TEST_P(LinkingTest, MatrixProductIsThatOfTheDefinition) {
  const Tensor a("a", f32, {6, 8}), b("b", f32, {8, 5}), c("c", f32, {6, 5});
  Index i, j, k;
  Program mm("mm");
  mm << (c(i, j) += a(i, k) * b(k, j));
  const Routine run = Context(device).link(backend.compile(mm));
  const auto x = iota(48);
  const auto y = iota(40, -20);
  run.context().write(a, x);
  run.context().write(b, y);
  run.schedule();
  const auto z = run.context().read<float>(c);
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t s = 0; s < 5; ++s) {
      float sum = 0;
      for (std::size_t t = 0; t < 8; ++t) sum += x[r * 8 + t] * y[t * 5 + s];
      EXPECT_EQ(z[r * 5 + s], sum);
    }
  }
}

// D2, O54: new arrays are zero, and values persist along a chain; += accumulates over runs
TEST_P(LinkingTest, ArraysStartAtZeroAndPersistAlongTheChain) {
  const Tensor x("x", i32, {3}), y("y", i32, {3});
  Index i;
  Program inc("inc"), twice("twice");
  inc << (x(i) += 1);
  twice << (y(i) = x(i) * 2);
  const Routine first = Context(device).link(backend.compile(inc));
  const Routine second = first.context().link(backend.compile(twice));
  first.schedule();
  first.schedule();
  second.schedule();
  EXPECT_THAT(second.context().read<std::int32_t>(y), ElementsAre(4, 4, 4));
  EXPECT_FALSE(first.context().contains(y));
  EXPECT_TRUE(second.context().parent()->contains(x));
  EXPECT_EQ(second.context().num_bytes(), 24u);
}

// J8, O42: unrelated contexts own separate buffers, the same code links to both (O24)
TEST_P(LinkingTest, UnrelatedContextsAreSeparate) {
  const Tensor x("x", i32, {2});
  Index i;
  Program inc("inc");
  inc << (x(i) += 1);
  const Code code = backend.compile(inc);
  const Routine one = Context(device).link(code);
  const Routine two = Context(device).link(code);
  one.schedule();
  two.schedule();
  two.schedule();
  EXPECT_THAT(one.context().read<std::int32_t>(x), ElementsAre(1, 1));
  EXPECT_THAT(two.context().read<std::int32_t>(x), ElementsAre(2, 2));
}

// J6, O43: the value is taken when the routine is scheduled, not when it runs
TEST_P(LinkingTest, StaticIndexIsTakenAtSchedule) {
  const Tensor x("x", f32, {4, 2}), y("y", f32, {2});
  Index i;
  StaticIndex row("row", 4);
  Program slice("slice");
  slice << (y(i) += x(row, i));
  const Routine run = Context(device).link(backend.compile(slice));
  run.context().write(x, iota(8));
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  Bindings bindings{{row, 1}};
  run.schedule(bindings);
  bindings[0].second = 3;  // must not reach the queued run
  run.schedule(bindings);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(2 + 6, 3 + 7));
}

// J6, bad input: out of range, missing, unknown, twice
TEST_P(LinkingTest, StaticIndexErrorsNameIndexValueAndRange) {
  const Tensor x("x", f32, {4, 2}), y("y", f32, {2});
  Index i;
  StaticIndex row("row", 4), other("other", 4), open("open");
  Program slice("slice");
  slice << (y(i) = x(row, i) + x(open, i));
  const Routine run = Context(device).link(backend.compile(slice));
  const auto refusal = [&](const Bindings& bindings) {
    return text(failure([&] { run.schedule(bindings); }));
  };
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{1} << 31}) {
    EXPECT_THAT(refusal({{row, bad}, {open, 0}}),
                AllOf(HasSubstr("'row'"), HasSubstr(std::to_string(bad)), HasSubstr("0 to 3")));
    EXPECT_THAT(refusal({{row, 0}, {open, bad}}), AllOf(HasSubstr("'open'"), HasSubstr("0 to 3")));
  }
  EXPECT_THAT(refusal({{row, 0}}), HasSubstr("'open' is not bound"));
  EXPECT_THAT(refusal({{row, 0}, {open, 0}, {other, 0}}), HasSubstr("'other'"));
  EXPECT_THAT(refusal({{row, 0}, {open, 0}, {row, 1}}), HasSubstr("twice"));
  EXPECT_TRUE(run.schedule({{row, 3}, {open, 3}}).wait().ok());
}

// J7, O23: postponed code embeds addresses and computes the same values
TEST_P(LinkingTest, PostponedCodeRunsInEachContext) {
  const Tensor x("x", i32, {2});
  Index i;
  Program inc("inc");
  inc << (x(i) += 5);
  CompileOptions options;
  options.shared = false;
  const Code code = backend.compile(inc, options);
  EXPECT_FALSE(code.is_shared());
  EXPECT_EQ(code.source(), "");
  const Routine one = Context(device).link(code);
  const Routine two = Context(device).link(code);
  one.schedule();
  two.schedule();
  two.schedule();
  EXPECT_THAT(one.context().read<std::int32_t>(x), ElementsAre(5, 5));
  EXPECT_THAT(two.context().read<std::int32_t>(x), ElementsAre(10, 10));
}

// O25, O28, O55, J8: positions stay, a tensor new to two entries gets one buffer, excluded entries
// are not compiled
TEST_P(LinkingTest, BatchKeepsPositionsAndSharesBuffers) {
  const Tensor x("x", i32, {2}), y("y", i32, {2});
  Index i;
  std::vector<Program> programs{Program("step_a"), Program("step_b"), Program("step_c")};
  programs[0] << (x(i) += 1);
  programs[1] << (y(i) += 100);
  programs[2] << (y(i) = x(i) * 10);
  for (const bool shared : {true, false}) {
    BatchOptions options;
    options.each.shared = shared;
    options.occupancy = [](const std::string& name, std::size_t) { return name != "step_b"; };
    const CodeBatch batch = backend.compile_batch(programs, options);
    ASSERT_EQ(batch.size(), 3u);
    EXPECT_FALSE(batch[1].has_value());
    const auto routines = Context(device).link_batch(batch);
    ASSERT_EQ(routines.size(), 3u);
    EXPECT_FALSE(routines[1].has_value());
    routines[0]->schedule();
    routines[2]->schedule();
    EXPECT_THAT(routines[2]->context().read<std::int32_t>(y), ElementsAre(10, 10));
    EXPECT_EQ(routines[0]->context().view(x).buffer(), routines[2]->context().view(x).buffer());
  }
}

// O25, O28, J6: entries of a batch need not share their static indices
TEST_P(LinkingTest, BatchEntriesHaveTheirOwnStaticIndices) {
  const Tensor x("x", i32, {4}), y("y", i32, {1}), z("z", i32, {1});
  Index i;
  const StaticIndex row("row", 4), column("column", 4);
  std::vector<Program> programs{Program("by_row"), Program("by_column"), Program("by_none")};
  programs[0] << (y(i) += x(row));
  programs[1] << (z(i) += x(column));
  programs[2] << (z(i) += y(i));
  const auto routines = Context(device).link_batch(backend.compile_batch(programs));
  const Context& last = routines[2]->context();
  last.write(x, std::vector<std::int32_t>{1, 10, 100, 1000});
  routines[0]->schedule({{row, 1}});
  routines[1]->schedule({{column, 3}});
  routines[2]->schedule();
  EXPECT_THAT(last.read<std::int32_t>(z), ElementsAre(1010));
  EXPECT_THAT(text(failure([&] { routines[2]->schedule({{row, 1}}); })), HasSubstr("'row'"));
}

// J4: scratch of one run may be larger than any stack
TEST_P(LinkingTest, LargeScratchIsNotOnTheStack) {
  const std::int64_t n = 1 << 23;
  const Tensor x("x", f32, {1}), t("t", f32, {n}), y("y", f32, {1});
  t.set_mode(MemoryMode::local);
  Index i, k;
  Program p("p");
  p << (t(i) = x(0) + 1.0) << (y(0) = maximum(t(k)));
  const Code code = backend.compile(p);
  EXPECT_EQ(code.placement(t), MemoryMode::local);
  const Routine run = Context(device).link(code);
  run.schedule();
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(1));
}

// Bad input: nameless programs and duplicate names
TEST_P(LinkingTest, NamesAreRequiredAndUniqueInABatch) {
  const Tensor x("x", i32, {2});
  Index i;
  Program nameless;
  nameless << (x(i) += 1);
  EXPECT_THAT(text(failure([&] { static_cast<void>(backend.compile(nameless)); })),
              HasSubstr("no name"));
  nameless.comment("increment x");
  EXPECT_EQ(backend.compile(nameless).name(), "increment_x");
  const std::vector<Program> twins{nameless, nameless};
  EXPECT_THAT(text(failure([&] { static_cast<void>(backend.compile_batch(twins)); })),
              AllOf(HasSubstr("entry 1"), HasSubstr("'increment_x'")));
}

// J8, O29: link with a missing prior tensor
TEST_P(LinkingTest, MissingPriorTensorIsRefused) {
  const Tensor x("x", i32, {2}), y("y", i32, {2});
  Index i;
  Program make("make"), use("use");
  make << (x(i) = 3);
  use << (y(i) = x(i));
  const Code code = backend.compile(use);
  LinkOptions options;
  options.from_prior_context = {x};
  const Context empty(device);
  const Status refused = failure([&] { static_cast<void>(empty.link(code, options)); });
  EXPECT_EQ(refused.code(), ErrorCode::not_found);
  EXPECT_THAT(text(refused), AllOf(HasSubstr("'x'"), HasSubstr("'use'")));
  const Routine first = empty.link(backend.compile(make));
  const Routine second = first.context().link(code, options);
  first.schedule();
  second.schedule();
  EXPECT_THAT(second.context().read<std::int32_t>(y), ElementsAre(3, 3));
}

// J4: hidden tensors are refused to other routines, never silently zero
TEST_P(LinkingTest, HiddenTensorsAreRefusedByName) {
  const Tensor x("x", f32, {4}), hidden("hidden", f32, {4}), y("y", f32, {4}), z("z", f32, {4});
  Index i;
  Program forward("forward"), backward("backward");
  forward << (hidden(i) = x(i) * 2.0) << (y(i) = hidden(i) + 1.0);
  backward << (z(i) = hidden(i));
  const Code code = backend.compile(forward);
  EXPECT_EQ(code.placement(hidden), MemoryMode::virtual_);
  const Routine first = Context(device).link(code);
  const Status linking =
      failure([&] { static_cast<void>(first.context().link(backend.compile(backward))); });
  EXPECT_EQ(linking.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(linking), AllOf(HasSubstr("'hidden'"), HasSubstr("'forward'"),
                                   HasSubstr("'backward'"), HasSubstr("on_device")));
  EXPECT_THAT(text(failure([&] { static_cast<void>(first.context().read<float>(hidden)); })),
              HasSubstr("'forward'"));
  hidden.set_mode(MemoryMode::on_device);
  const Routine kept = Context(device).link(backend.compile(forward));
  const Routine after = kept.context().link(backend.compile(backward));
  kept.context().write(x, iota(4));
  kept.schedule();
  after.schedule();
  EXPECT_THAT(after.context().read<float>(z), ElementsAre(0, 2, 4, 6));
}

// J7: a program compiles to the same text and hash after any earlier programs
TEST_P(LinkingTest, CanonicalTextDoesNotDependOnHistory) {
  const auto build = [&] {
    const Tensor a("a", f32, {6, 8}), b("b", f32, {8, 5}), c("c", f32, {6, 5});
    Index i, j, k;
    Program mm("mm");
    mm << (c(i, j) = sum(a(i, k) * b(k, j)));
    return backend.compile(mm);
  };
  const Code before = build();
  std::vector<Tensor> unrelated;
  for (int n = 0; n < 100; ++n)
    unrelated.emplace_back("unrelated" + std::to_string(n), f64, Dims{n});
  Index i;
  Program other("other");
  other << (unrelated[7](i) = unrelated[7](i) + 1.0);
  static_cast<void>(backend.compile(other));
  const Code after = build();
  EXPECT_EQ(before.unoptimized_text(), after.unoptimized_text());
  EXPECT_EQ(before.loop_text(), after.loop_text());
  EXPECT_EQ(before.hash(), after.hash());
  EXPECT_EQ(before.source(), after.source());
}

// J9: schedules can be switched off, partly disabled and steered, alone and in batches
TEST_P(LinkingTest, SchedulesCanBeSteered) {
  const Tensor a("a", f32, {24, 32}), b("b", f32, {32, 48}), c("c", f32, {24, 48});
  Index i, j, k;
  Program mm("mm");
  mm << (c(i, j) += a(i, k) * b(k, j));
  CompileOptions off, steps, tile;
  off.schedule = Schedule::off;
  steps.schedule_without = {ScheduleStep::contraction, ScheduleStep::reduction};
  tile.contraction_tile = ContractionTile{2, 1};
  BatchOptions batch;
  batch.each.schedule_without = {ScheduleStep::reduction};
  batch.each.contraction_tile = ContractionTile{3, 1};
  std::vector<Code> codes{backend.compile(mm), backend.compile(mm, off), backend.compile(mm, steps),
                          backend.compile(mm, tile)};
  const std::vector<Program> programs{mm};
  codes.push_back(*backend.compile_batch(programs, batch)[0]);
  for (const Code& code : codes) {
    const Routine run = Context(device).link(code);
    run.context().write(a, iota(24 * 32, -300));
    run.context().write(b, iota(32 * 48, -700));
    run.schedule();
    const auto z = run.context().read<float>(c);
    for (std::size_t row = 0; row < 24; ++row) {
      for (std::size_t column = 0; column < 48; ++column) {
        float sum = 0;
        for (std::size_t t = 0; t < 32; ++t) {
          sum += (-300 + static_cast<float>(row * 32 + t)) *
                 (-700 + static_cast<float>(t * 48 + column));
        }
        EXPECT_EQ(z[row * 48 + column], sum) << row << ", " << column;
      }
    }
  }
  EXPECT_THAT(codes[1].source(), Not(HasSubstr("contraction")));
  EXPECT_THAT(codes[2].source(), Not(HasSubstr("contraction")));
  if (codes[0].source().find("contraction") != std::string::npos) {
    EXPECT_THAT(codes[3].source(), HasSubstr("contraction: tiles of 2 x"));
    EXPECT_THAT(codes[4].source(), HasSubstr("contraction: tiles of 3 x"));
  }
  tile.contraction_tile = ContractionTile{0, 1};
  EXPECT_THAT(text(failure([&] { static_cast<void>(backend.compile(mm, tile)); })),
              HasSubstr("contraction_tile has 0 rows"));
}

// O57: value tracing
TEST_P(LinkingTest, TracesEachAssignment) {
  const Tensor x("x", i32, {2});
  Index i;
  Program inc("inc");
  inc << (x(i) += 5);
  CompileOptions options;
  options.trace_values = true;
  const Routine run = Context(device).link(backend.compile(inc, options));
  std::vector<std::string> lines;
  ScheduleOptions schedule;
  schedule.trace = [&](const TracedValue& v) {
    lines.push_back(v.tensor + "[" + std::to_string(v.offset) + "] " +
                    std::to_string(static_cast<int>(v.before)) + " to " +
                    std::to_string(static_cast<int>(v.after)));
  };
  EXPECT_TRUE(run.schedule({}, schedule).wait().ok());
  EXPECT_THAT(lines, ElementsAre("x[0] 0 to 5", "x[1] 0 to 5"));
  const Routine plain = Context(device).link(backend.compile(inc));
  EXPECT_THAT(text(failure([&] { plain.schedule({}, schedule); })), HasSubstr("trace_values"));
}

// D3: zero-sized and scalar tensors, alone and together
TEST_P(LinkingTest, EmptyAndScalarTensorsWork) {
  const Tensor empty("empty", f32, {0, 3}), s("s", f32, {}), e2("e2", f32, {0, 3});
  // Without this mode the routine hides the tensor, which is assigned before its first read.
  s.set_mode(MemoryMode::on_device);
  Index i, j;
  Program p("p");
  p << (s() = 2.5) << (s() += empty(i, j)) << (e2(i, j) = empty(i, j) * s());
  const Routine run = Context(device).link(backend.compile(p));
  run.schedule();
  EXPECT_THAT(run.context().read<float>(s), ElementsAre(2.5f));
  EXPECT_TRUE(run.context().read<float>(e2).empty());
  EXPECT_TRUE(run.context().contains(e2));
}

// B3: programs of several kinds give the same bits on every backend under test
TEST_P(LinkingTest, BitsAreThoseOfTheReferenceBackend) {
  const Tensor x("x", f32, {8, 16}), m("m", f32, {8}), e("e", f32, {8, 16}), s("s", f32, {8}),
      y("y", f32, {8, 16}), h("h", f16, {8, 16}), q("q", i32, {8});
  y.set_mode(MemoryMode::on_device);
  Index i, j;
  Program softmax("softmax");
  softmax << (m(i) = maximum(x(i, j))) << (e(i, j) = exp(x(i, j) - m(i))) << (s(i) = sum(e(i, j)))
          << (y(i, j) = e(i, j) / s(i)) << (h(i, j) = tanh(y(i, j)) * x(i, j))
          << (q(i) = sum(cast(x(i, j) * 7.0, i32) % 5));
  const auto run = [&](const Backend& on, Schedule schedule) {
    const Code code = on.compile(softmax, {.schedule = schedule});
    const Routine routine = Context(on.physical_device(0).new_virtual_device()).link(code);
    const HostArray values = HostArray::uniform(x.type(), 3);
    routine.context().write(x, std::span<const float>(values.values<float>()));
    routine.schedule();
    std::vector<std::uint8_t> bits;
    const auto add = [&](const auto& v) {
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(v.data());
      bits.insert(bits.end(), bytes, bytes + v.size() * sizeof v[0]);
    };
    add(routine.context().read<float>(y));
    add(routine.context().read<Float16>(h));
    add(routine.context().read<std::int32_t>(q));
    return bits;
  };
  // GPU schedules keep the order of sums in loops.
  const Schedule reference = backend.name() == "cuda" ? Schedule::off : Schedule::automatic;
  EXPECT_EQ(run(backend, Schedule::automatic), run(Backend::open("sync_cc"), reference));
}

}  // namespace
}  // namespace heddle
