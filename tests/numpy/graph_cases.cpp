// Runs each graph operation for each element type on the default backend, and writes inputs and
// results for compare.py, which runs the same operation in NumPy: graph_cases FILE.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "numpy/op_cases.hpp"

namespace heddle::numpy {
namespace {

double drawn(V values, DType dtype, std::int64_t k, std::mt19937_64& random) {
  const auto whole = [&](std::int64_t low, std::int64_t high) {
    const auto count = static_cast<std::uint64_t>(high - low + 1);
    return static_cast<double>(low + static_cast<std::int64_t>(random() % count));
  };
  if (values == V::places) return whole(-1, 5);
  if (dtype == DType::bool_) return whole(0, 1);
  if (!is_floating(dtype))
    return whole(values == V::positive ? 1 : info(dtype).is_signed ? -6 : 0, 6);
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
  if (values == V::positive) return 0.25 + 2 * unit;
  if (values == V::any && k < 5) {
    constexpr double limit = std::numeric_limits<double>::infinity();
    const double odd[] = {limit, -limit, std::numeric_limits<double>::quiet_NaN(), -0.0, 0.0};
    return odd[(static_cast<std::uint64_t>(k) + random() % 5) % 5];
  }
  return 6 * unit - 3;
}

nlohmann::json elements(const HostArray& array) {
  nlohmann::json values = nlohmann::json::array();
  if (array.type().dtype == DType::i64) return array.values<std::int64_t>();
  if (array.type().dtype == DType::u64) return array.values<std::uint64_t>();
  if (array.type().dtype == DType::bool_) return array.values<bool>();
  for (std::int64_t k = 0; k < array.num_elements(); ++k) {
    const double value = array.at(k);
    if (is_integer(array.type().dtype)) {
      values.push_back(static_cast<std::int64_t>(value));
    } else if (std::isfinite(value)) {
      values.push_back(value);
    } else {
      values.push_back(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
  }
  return values;
}

nlohmann::json words(const HostArray& array) {
  return {{"dtype", std::string(name(array.type().dtype))},
          {"shape", array.type().dims},
          {"values", elements(array)}};
}

DType type_of(const In& in, DType dtype) {
  if (in.values == V::places) return DType::i64;
  return in.values == V::keys ? DType::u64 : dtype;
}

HostArray argument(const In& in, DType dtype, std::mt19937_64& random) {
  HostArray array({type_of(in, dtype), in.dims});
  if (in.values == V::bits || in.values == V::keys) {
    std::ranges::generate(std::span(static_cast<std::byte*>(array.data()), array.num_bytes()),
                          [&] { return static_cast<std::byte>(random()); });
    return array;
  }
  for (std::int64_t k = 0; k < array.num_elements(); ++k)
    array.set(k, drawn(in.values, array.type().dtype, k, random));
  return array;
}

struct Subject {
  const OpCase* op;
  DType dtype;
  std::vector<HostArray> arguments;
  GraphProgram program;
};

nlohmann::json line_of(const Subject& subject, const HostArray& found) {
  nlohmann::json line{{"family", subject.op->family},
                      {"op", subject.op->name},
                      {"dtype", std::string(name(subject.dtype))},
                      {"shape", subject.op->shape},
                      {"numpy", subject.op->numpy},
                      {"in", nlohmann::json::array()},
                      {"out", words(found)}};
  for (const HostArray& each : subject.arguments) line["in"].push_back(words(each));
  return line;
}

int run(const char* path) {
  Cases cases;
  add_elementwise(cases);
  add_shapes_of_elementwise(cases);
  add_layout(cases);
  add_contractions(cases);
  add_reductions(cases);
  add_indexing(cases);
  add_order(cases);
  add_neural(cases);
  add_random(cases);
  add_edges_of_layout(cases);
  add_edges_of_sums(cases);
  add_edges_of_places(cases);
  add_rare_cases(cases);

  std::mt19937_64 random(1);
  std::vector<Subject> subjects;
  std::vector<Program> programs;
  for (const OpCase& op : cases.all) {
    for (const DType dtype : op.types) {
      const Graph g(op.shape + " " + op.name + " of " + std::string(name(dtype)));
      Nodes parameters;
      std::vector<HostArray> arguments;
      for (const In& in : op.in) {
        HostArray array = argument(in, dtype, random);
        parameters.push_back(
            g.parameter(std::string(1, static_cast<char>('a' + parameters.size())), array.type()));
        arguments.push_back(std::move(array));
      }
      g.finish({op.make(g, parameters)});
      subjects.push_back({&op, dtype, std::move(arguments), g.program()});
      programs.push_back(subjects.back().program.program);
    }
  }
  const auto backend = Backend::open();
  const auto device = backend.physical_device(0).new_virtual_device();
  const CodeBatch codes = backend.compile_batch(programs);
  std::ofstream out(path);
  for (std::size_t k = 0; k < subjects.size(); ++k) {
    const Subject& subject = subjects[k];
    const Routine routine = Context(device).link(*codes[k]);
    for (std::size_t n = 0; n < subject.arguments.size(); ++n) {
      const Tensor& parameter = subject.program.parameters[n];
      if (!routine.context().contains(parameter)) continue;
      const HostArray& from = subject.arguments[n];
      routine.context()
          .view(parameter)
          .from_host(device, std::as_bytes(std::span(static_cast<const std::byte*>(from.data()),
                                                     from.num_bytes())))
          .wait();
    }
    routine.schedule();
    const Tensor& result = subject.program.results[0];
    HostArray found(result.type());
    routine.context()
        .view(result)
        .to_host(device, std::span(static_cast<std::byte*>(found.data()), found.num_bytes()))
        .wait();
    out << line_of(subject, found).dump() << "\n";
  }
  std::printf("%zu cases on %s\n", subjects.size(), backend.name().c_str());
  return out ? 0 : 1;
}

}  // namespace
}  // namespace heddle::numpy

int main(int argc, char** argv) try {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  return heddle::numpy::run(argv[1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
