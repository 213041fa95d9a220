// Compiled schedules against the interpreter, on every compiler and instruction set: equal to the
// last bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "compilers.hpp"
#include "disassembly.hpp"
#include "heddle/host_array.hpp"
#include "jit/emit/c.hpp"
#include "jit/schedule/schedule.hpp"
#include "schedules_fixture.hpp"
#include "support/random_contraction.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "support/temp_directory.hpp"

namespace heddle::jit::testing {
namespace {

// J3, J9, B3: schedules compute the same bits on every compiler and instruction set
TEST_P(SchedulesTest, RandomContractionsAreAsInterpreted) {
  for (const Isa isa : isas())
    expect_as_interpreted(scheduled_unit(random_contraction, isa), make_for(isa), isa);
}

// J3, J9, B3: reductions have one order, numbers of all kinds included
TEST_P(SchedulesTest, RandomRowsAreAsInterpreted) {
  for (const Isa isa : isas())
    expect_as_interpreted(scheduled_unit(random_rows, isa), make_for(isa), isa, random_array);
}

// J3, J9, B3: permutations keep every bit, NaN and infinity included
TEST_P(SchedulesTest, RandomTransposesAreAsInterpreted) {
  for (const Isa isa : isas())
    expect_as_interpreted(scheduled_unit(random_transpose, isa), make_for(isa), isa, random_array);
}

/// Rows of three types at positions, read and changed; small seeds have the shortest.
Program rows_at_positions(std::uint64_t seed) {
  const auto columns = static_cast<std::int64_t>(seed) + 1;
  const Tensor k("k", i64, {30});
  const Index row, column;
  Program program("rows");
  for (const DType type : {f32, i32, f64}) {
    const Tensor table("table", type, {3, columns}), read("read", type, {30, columns}),
        sums("sums", type, {3, columns});
    program << (read(row, column) = table(at(k(row)), column) + 1)
            << (sums(at(k(row)), column) += read(row, column) * table(1, column));
  }
  return program;
}

// J3, J9, B3: short rows keep every bit, whether masks, pieces or single elements
TEST_P(SchedulesTest, RowsAtPositionsAreAsInterpreted) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > native_target().isa) continue;
    expect_as_interpreted(scheduled_unit(rows_at_positions, isa, test::slower > 1 ? 4 : 9),
                          make_for(isa), isa);
  }
}

/// Rows of points in which each element depends on the others, and on rows at positions; and
/// columns of points.
Program rows_of_points(std::uint64_t seed) {
  const std::int64_t columns = static_cast<std::int64_t>(seed) + 2, points = 530;
  const Tensor k("k", i64, {points});
  const Index point, axis;
  Program program("points");
  for (const DType type : {f32, i32, f64}) {
    const Tensor table("table", type, {7, columns}), x("x", type, {points, columns}),
        sums("sums", type, {points}), y("y", type, {points, columns}), z("z", type, {points});
    program << (x(point, axis) += table(at(k(point)), axis) - y(point, axis))
            << (sums(point) += x(point, axis) * x(point, axis))
            << (y(point, axis) = x(point, axis) * sums(point) + y(point, axis))
            << (z(point) = x(point, 1) - x(point, 0) * sums(point));
  }
  return program;
}

// J3, J9, B3: whole rows that are permuted keep every bit, and so do positions kept in range before
TEST_P(SchedulesTest, RowsOfPointsAreAsInterpreted) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa > native_target().isa) continue;
    expect_as_interpreted(scheduled_unit(rows_of_points, isa, 3), make_for(isa), isa);
  }
}

/// Lengths of differences of so many points that they run block by block.
CompileUnit blocks_of_points(Isa isa) {
  constexpr std::int64_t edges = 16 * 256 + 9;
  const Tensor k("k", i64, {edges}), x("x", f32, {7, 3}), d("d", f32, {edges, 3}),
      squares("squares", f32, {edges});
  const Index edge, axis;
  Program program("blocks");
  program << (d(edge, axis) = x(at(k(edge)), axis) - x(at(k(edge) + 1), axis))
          << (squares(edge) += d(edge, axis) * d(edge, axis));
  const Lowered made = schedule(optimize(lower(program)), tiny_target(isa));
  return {"blocks", {{"blocks", made.verified, {}, {}}}};
}

// J3, J9, B3: blocks of rows, and the rest of the rows, keep every bit
TEST_P(SchedulesTest, BlocksOfRowsAreAsInterpreted) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa <= native_target().isa)
      expect_as_interpreted(blocks_of_points(isa), make_for(isa), isa);
  }
}

// J9: all columns of rows are computed before the rows are stored, maybe where others were read
TEST_P(SchedulesTest, RowsMayBeStoredWhereTheyAreRead) {
  if (native_target().isa < Isa::avx512) GTEST_SKIP() << "rows are not permuted";
  const Tensor x("x", f32, {64, 2}), y("y", f32, {64, 2});
  const Index row;
  Program program("rows");
  program << (y(row, 0) = x(row, 0) * 2) << (y(row, 1) = x(row, 1) + 1);
  const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx512));
  EXPECT_EQ(made.lanes->vectors.size(), 1u) << print(made.loop);
  const auto module =
      loaded(*make_for(Isa::avx512)->compile({"rows", {{"rows", made.verified, {}, {}}}}));
  const HostArray both = HostArray::range({f32, {128}});
  const heddle_kernel_buffer buffers[] = {{both.data(), both.num_bytes()},
                                          {both.data(), both.num_bytes()}};
  call_kernel(module->host_function(0), buffers);
  for (std::size_t k = 0; k < 128; ++k) {
    const auto before = static_cast<float>(k);
    ASSERT_EQ(both.values<float>()[k], k % 2 == 0 ? 2 * before : before + 1) << k;
  }
}

// J9: three elements that are changed have no masks, for whose stores the next row would wait
TEST(RowsAtPositionsTextTest, ChangedRowsHaveNoMasks) {
  const std::string text = emit_c(
      CompileUnit{
          "rows",
          {{"rows",
            schedule(optimize(lower(rows_at_positions(2))), tiny_target(Isa::avx512)).verified,
            {},
            {}}}},
      tiny_target(Isa::avx512));
  EXPECT_NE(text.find("v16f32_store_pieces(t"), std::string::npos) << text;
  EXPECT_NE(text.find("v16f32_load_part(t"), std::string::npos) << "rows that are only read";
}

// J9, J13: positions that vectors kept in their range are taken as they are
TEST(PositionsTextTest, PositionsAheadAreNotCheckedAgain) {
  const auto text = [](std::int64_t rows) {
    const Tensor k("k", i64, {rows}), x("x", f32, {7}), y("y", f32, {rows});
    const Index row;
    Program program("taken");
    program << (y(row) = x(at(k(row))));
    const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx512));
    return emit_c({"taken", {{"taken", made.verified, {}, {}}}}, tiny_target(Isa::avx512));
  };
  EXPECT_EQ(text(512).find("least_zero"), std::string::npos) << text(512);
  EXPECT_NE(text(20).find("least_zero"), std::string::npos) << text(20);
}

// J9: where there are no instructions to spell out, kernels are C with vector extensions alone
TEST(PortableTest, IsForOtherProcessors) {
  const auto clang = second_compiler();
  if (!clang) GTEST_SKIP() << "there is no clang here, which compiles for all processors";
  const TempDirectory dir;
  const std::string file = (dir.path() / "unit.c").string();
  for (const auto make : {random_contraction, random_rows, random_transpose}) {
    const CompileUnit unit = scheduled_unit(make, Isa::portable);
    const std::string text = emit_c(unit, tiny_target(Isa::portable));
    EXPECT_NE(text.find("vector_size"), std::string::npos);
    std::ofstream(file) << text;
    for (const char* target : {"aarch64-linux-gnu", "riscv64-linux-gnu"}) {
      const std::string command = fmt::format(
          "{} --target={} -std=gnu11 -ffreestanding -O1 -c -o /dev/null {}", *clang, target, file);
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
  }
}

#if defined(__x86_64__)
// J9: what kernels spell out for wider processors than this one may be is text that compilers take
TEST(WiderTest, KernelsCompile) {
  const TempDirectory dir;
  const std::string file = (dir.path() / "unit.c").string();
  for (const auto make : {random_contraction, random_word_product, random_bf16_product, random_rows,
                          random_transpose}) {
    for (const auto& [isa, flags] : {std::pair{Isa::avx2, "-march=x86-64-v3"},
                                     {Isa::avx512, "-march=x86-64-v4"},
                                     {Isa::avx512_vnni, "-march=x86-64-v4 -mavx512vnni"},
                                     {Isa::avx512_bf16, "-march=x86-64-v4"}}) {
      std::ofstream(file) << emit_c(scheduled_unit(make, isa, 4, true), tiny_target(isa));
      const std::string command =
          fmt::format("cc {} -std=gnu11 -ffreestanding -O1 -c -o /dev/null {}", flags, file);
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
  }
}
#endif

// J9: rows that begin where lines do pass the caches by; others are fetched before they are written
TEST_P(SchedulesTest, LargeTransposesAreStreamedOrFetched) {
  for (const std::int64_t columns : {64, 50}) {
    const Tensor x("x", f32, {columns, 64}), y("y", f32, {64, columns});
    const Index i, j;
    Program program("transposed");
    program << (y(i, j) = x(j, i) + 1);
    const Isa isa = std::min(native_target().isa, Isa::avx512);
    const Lowered made = schedule(optimize(lower(program)), tiny_target(isa));
    const std::string text = print(made.loop);
    if (isa == Isa::avx512) {
      EXPECT_EQ(text.find("stream t") != std::string::npos, columns == 64) << text;
      EXPECT_EQ(text.find("prefetchw t") != std::string::npos, columns != 64) << text;
    }
    expect_as_interpreted({"transposed", {{"transposed", made.verified, {}, {}}}}, make_for(isa),
                          isa);
  }
}

// J9: tiles of large transposes fetch what is read next, which changes nothing
TEST_P(SchedulesTest, LargeTransposesFetchTheNextTile) {
  for (const DType type : {f32, f64}) {
    for (const std::int64_t rows : {70, 600}) {
      const Tensor x("x", type, {272, rows}), y("y", type, {rows, 272});
      const Index i, j;
      Program program("transposed");
      program << (y(i, j) = x(j, i) * 3);
      const Isa isa = std::min(native_target().isa, Isa::avx512);
      const Lowered made = schedule(optimize(lower(program)), tiny_target(isa));
      const std::string text = print(made.loop);
      if (isa == Isa::avx512) {
        EXPECT_NE(text.find("prefetch2 t"), std::string::npos) << text;
      }
      expect_as_interpreted({"transposed", {{"transposed", made.verified, {}, {}}}}, make_for(isa),
                            isa);
    }
  }
}

/// y = 2 x, and what `more` does.
CompileUnit doubling_unit(Isa isa, const char* more) {
  Target target = tiny_target(isa);
  target.l2_bytes = target.l3_bytes = 1024;
  const Tensor x("x", f32, {1000}), y("y", f32, {1000}), z("z", f32, {1000});
  const Index i;
  Program program("doubling");
  program << (y(i) = x(i) * 2);
  if (std::string_view(more) == "reads it") program << (z(999 - Subscript(i)) = y(i) * 3);
  if (std::string_view(more) == "adds to it") program << (y(i) += x(i) + 0.5);
  const Lowered made = schedule(optimize(lower(program)), target);
  return {"doubling", {{"doubling", made.verified, {}, {}}}};
}

// J9: outputs that no cache would hold pass the caches by, wherever they begin
TEST_P(SchedulesTest, LargeOutputsAreStreamed) {
  for (const Isa isa : isas()) {
    const CompileUnit unit = doubling_unit(isa, "");
    EXPECT_EQ(print(*unit.kernels[0].loop).find("stream t") != std::string::npos, isa != Isa::none);
    for (const char* more : {"reads it", "adds to it"}) {
      const std::string text = print(*doubling_unit(isa, more).kernels[0].loop);
      EXPECT_EQ(text.find("stream t0["), std::string::npos) << text;
    }
    const auto module = loaded(*make_for(isa)->compile(unit));
    for (const std::size_t offset : {0, 1, 8, 15}) {
      const HostArray x = HostArray::range({f32, {1000}});
      const HostArray y({f32, {1016}});
      const heddle_kernel_buffer buffers[] = {{y.values<float>().data() + offset, 4000},
                                              {x.data(), x.num_bytes()}};
      call_kernel(module->host_function(0), buffers);
      for (std::size_t k = 0; k < 1016; ++k) {
        const bool inside = k >= offset && k < offset + 1000;
        ASSERT_EQ(y.values<float>()[k], inside ? 2 * static_cast<float>(k - offset) : 0.0F)
            << name(isa) << " " << offset << " " << k;
      }
    }
  }
}

#if defined(__x86_64__)
// J9: with AVX2, too, the last lanes of a row come in one load, and from no copy of them
TEST_P(SchedulesTest, PartsOfVectorsAreLoadedAtOnce) {
  if (native_target().isa < Isa::avx2) GTEST_SKIP() << "no vector instructions to look for";
  const CompileUnit unit = unit_from("odd", R"(buffer t0 input f32[5]
buffer t1 output f32[5]
buffer t2 input f64[3]
buffer t3 output f64[3]
kernel {
  lanes i0 in 0..5 {
    t1[i0] = mul.f32(t0[i0], 2:f32)
  }
  lanes i1 in 0..3 {
    t3[i1] = mul.f64(t2[i1], 2:f64)
  }
}
)");
  const auto module = loaded(*make_for(Isa::avx2)->compile(unit));
  const std::string code = disassembly(module->host_function(0));
  EXPECT_EQ(count_instructions(code, {"vmaskmovps", "vmaskmovpd"}, {"),%ymm"}), 2) << code;
}
#endif

constexpr const char* marks = R"(buffer t0 input TYPE[3,40]
buffer t1 inout TYPE[3,40]
buffer t2 output TYPE[40]
kernel {
  let x0: TYPE[2,EXTENT] = t0[1, 1]
  let x1: TYPE[EXTENT] = 3:TYPE
  for i0 in 0..3 {
    unroll i1 in 0..2 {
      lanes i2 in 0..EXTENT {
        let x2: TYPE = sub.TYPE(t0[i0, i2], t0[i0, 0])
        x2 = mul.TYPE(x2, 2:TYPE)
        x0[i1, i2] = add.TYPE(x0[i1, i2], neg.TYPE(mul.TYPE(x2, t1[i1, i2])))
      }
    }
    prefetch t0[i0 + 1, 0]
    prefetchw t1[i0, 0]
    lanes i3 in 0..EXTENT {
      x1[i3] = fma.TYPE(x1[i3], t0[i0, i3], x0[1, i3])
    }
    lanes i4 in 2..EXTENT {
      stream t1[i0, i4] = x1[i4]
    }
  }
  unroll i5 in 0..EXTENT {
    t2[EXTENT - 1 - i5] = add.TYPE(x1[i5], t0[2, i5])
  }
}
)";

// J5, J9, B3: unrolled and vector loops, with whole vectors and parts of them, for every dtype
TEST_P(SchedulesTest, MarkedLoopsAreAsInterpreted) {
  for (const Isa isa : isas()) {
    CompileUnit unit{"marks", {}};
    for (const char* type : {"f32", "f64", "i32", "u32", "i64", "u64"}) {
      for (const char* extent : {"3", "16", "37"}) {
        std::string text = replaced(replaced(marks, "TYPE", type), "EXTENT - 1 - i5", "-i5 + LAST");
        text = replaced(text, "LAST", std::to_string(std::stoi(extent) - 1));
        unit.kernels.push_back(
            kernel_from(std::string(type) + "_" + extent, replaced(text, "EXTENT", extent)));
      }
    }
    expect_as_interpreted(unit, make_for(isa), isa);
  }
}

constexpr const char* columns = R"(buffer t0 input TYPE[3,ROWS,COLUMNS]
buffer t1 inout TYPE[3,COLUMNS,ROWS]
kernel {
  let x0: TYPE[ROWS,COLUMNS] = t0[1, 0, 0]
  for i0 in 0..3 {
    unroll i1 in 0..COLUMNS {
      lanes i2 in 0..ROWS {
        t1[i0, i1, i2] = add.TYPE(t1[i0, i1, i2], x0[i2, i1])
      }
    }
    unroll i3 in 0..ROWS {
      lanes i4 in 0..COLUMNS {
        x0[i3, i4] = sub.TYPE(t0[i0, i3, i4], x0[i3, i4])
      }
    }
    unroll i5 in 0..COLUMNS {
      lanes i6 in 0..ROWS {
        t1[i0, i5, i6] = mul.TYPE(t1[i0, i5, i6], x0[i6, i5])
      }
    }
  }
  unroll i7 in 0..COLUMNS {
    lanes i8 in 0..ROWS {
      t1[0, i7, i8] = add.TYPE(t1[0, i7, i8], x0[i8, i7])
    }
  }
}
)";

// J5, J9, B3: columns of blocks in registers, whole and in part, are those of the rows at that time
TEST_P(SchedulesTest, ColumnsOfBlocksAreAsInterpreted) {
  for (const Isa isa : isas()) {
    CompileUnit unit{"columns", {}};
    for (const char* type : {"f32", "f64", "i32", "u32", "i64", "u64"}) {
      for (const auto& [rows, width] :
           {std::pair{"1", "3"}, {"16", "16"}, {"8", "8"}, {"21", "4"}, {"3", "2"}, {"13", "1"}}) {
        unit.kernels.push_back(kernel_from(
            fmt::format("{}_{}_{}", type, rows, width),
            replaced(replaced(replaced(columns, "TYPE", type), "ROWS", rows), "COLUMNS", width)));
      }
    }
    expect_as_interpreted(unit, make_for(isa), isa);
  }
}

/// Every operation on `type` as the only statement of a lanes loop, with numbers of all kinds.
CompileUnit operations_on(DType type) {
  CompileUnit unit{"operations", {}};
  for (std::size_t k = 0; k < all_ops().size(); ++k) {
    const Op op = static_cast<Op>(k);
    const std::vector<DType> types(op_info(op).arity, type);
    const auto typing = type_op(op, types);
    if (!typing || typing->operands != type) continue;
    Loop loop;
    std::vector<ValuePtr> args;
    for (BufferId at = 0; at < types.size(); ++at) {
      loop.buffers.push_back({Role::input, {type, {21}}});
      args.push_back(make_load(at, type, {affine_var(0)}));
    }
    const auto out = static_cast<BufferId>(types.size());
    loop.buffers.push_back({Role::output, {typing->result, {21}}});
    const StmtPtr store = make_store(out, {affine_var(0)}, make_op(op, args));
    loop.body.push_back(make_loop(0, 0, 21, {store}, LoopMark::lanes));
    unit.kernels.push_back({std::string(op_info(op).name) + "_" + std::string(name(type)),
                            VerifiedLoop(std::move(loop)),
                            {},
                            {}});
  }
  return unit;
}

// J3, J9, B3: an operation has the same bits in a lane as by itself, special values included
TEST_P(SchedulesTest, OperationsInLanesAreAsInterpreted) {
  for (const Isa isa : isas()) {
    for (const DType type : {f32, f64, i32, u32, i64, u64}) {
      expect_as_interpreted(operations_on(type), make_for(isa), isa, random_array);
    }
  }
}

// J5: the loop text numbers variables freely; the C text has types of such names
TEST_P(SchedulesTest, LoopVariablesMayHaveTheNamesOfTypes) {
  std::string text = "buffer t0 inout i64[2]\nkernel {\n";
  for (int k = 0; k < 70; ++k)
    text += "for i" + std::to_string(k) + " in 0..2 { t0[i" + std::to_string(k) +
            "] = add.i64(t0[i" + std::to_string(k) + "], 1:i64) }\n";
  CompileUnit unit{"names", {kernel_from("names", text + "}\n")}};
  expect_as_interpreted(unit, make_for(Isa::none), Isa::none);
}

INSTANTIATE_TEST_SUITE_P(Compilers, SchedulesTest, ::testing::ValuesIn(every_compiler()),
                         param_name);

}  // namespace
}  // namespace heddle::jit::testing
