// Runs graphs on the default backend, for jax_cases.py: reads cases from stdin until the end, and
// answers each case on stdout. All numbers have 64 bits in the machine's byte order. The length in
// bytes stands before a text, and before the elements of an array.
//
// case:   the graph's text; the number of inputs; for each: type ("f32[2,3]"), elements
// answer: the number of results; for each: type, elements
//         or, where the graph was refused or did not run: all ones, then the text of the error
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle::numpy {
namespace {

constexpr auto refused = ~std::uint64_t{0};

/// False at the end of the input.
bool read_number(std::uint64_t& number) {
  return std::fread(&number, sizeof number, 1, stdin) == 1;
}

std::uint64_t read_number() {
  std::uint64_t number = 0;
  if (!read_number(number)) throw std::runtime_error("the input ends within a case");
  return number;
}

std::string read_bytes() {
  std::string bytes(read_number(), '\0');
  if (std::fread(bytes.data(), 1, bytes.size(), stdin) != bytes.size())
    throw std::runtime_error("the input ends within a case");
  return bytes;
}

void write_number(std::uint64_t number) { std::fwrite(&number, sizeof number, 1, stdout); }

void write_bytes(const void* data, std::size_t size) {
  write_number(size);
  std::fwrite(data, 1, size, stdout);
}

void write_text(const std::string& text) { write_bytes(text.data(), text.size()); }

struct Input {
  std::string type, elements;
};

void require_input(const Input& input, const Tensor& parameter) {
  if (input.type == parameter.type().to_string() &&
      input.elements.size() == static_cast<std::size_t>(*parameter.type().num_bytes()))
    return;
  throw std::runtime_error("an input is " + input.type + " of " +
                           std::to_string(input.elements.size()) + " bytes, its parameter " +
                           parameter.type().to_string());
}

std::vector<HostArray> results_of(const Backend& backend, const Device& device,
                                  const std::string& text, const std::vector<Input>& inputs) {
  const GraphProgram program = Graph::parse(text).program();
  if (program.parameters.size() != inputs.size())
    throw std::runtime_error("a graph of " + std::to_string(program.parameters.size()) +
                             " parameters has " + std::to_string(inputs.size()) + " inputs");
  const Routine routine = Context(device).link(backend.compile(program.program));
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& parameter = program.parameters[k];
    require_input(inputs[k], parameter);
    if (!routine.context().contains(parameter)) continue;
    routine.context()
        .view(parameter)
        .from_host(device, std::as_bytes(std::span(inputs[k].elements)))
        .wait();
  }
  routine.schedule();
  std::vector<HostArray> results;
  for (const Tensor& result : program.results) {
    results.emplace_back(result.type());
    const std::span bytes(static_cast<std::byte*>(results.back().data()),
                          results.back().num_bytes());
    routine.context().view(result).to_host(device, bytes).wait();
  }
  return results;
}

void answer(const Backend& backend, const Device& device, const std::string& text,
            const std::vector<Input>& inputs) try {
  const std::vector<HostArray> results = results_of(backend, device, text, inputs);
  write_number(results.size());
  for (const HostArray& each : results) {
    write_text(each.type().to_string());
    write_bytes(each.data(), each.num_bytes());
  }
} catch (const std::exception& error) {
  write_number(refused);
  write_text(error.what());
}

void run() {
  const auto backend = Backend::open();
  const auto device = backend.physical_device(0).new_virtual_device();
  std::uint64_t size = 0;
  while (read_number(size)) {
    std::string text(size, '\0');
    if (std::fread(text.data(), 1, size, stdin) != size)
      throw std::runtime_error("the input ends within a case");
    std::vector<Input> inputs(read_number());
    for (Input& each : inputs) {
      each.type = read_bytes();
      each.elements = read_bytes();
    }
    answer(backend, device, text, inputs);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace heddle::numpy

int main() try {
  heddle::numpy::run();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
