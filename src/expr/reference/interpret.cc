// The reference: every tensor in full, in order.
#include "src/expr/reference/interpret.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/reference/engine.h"

namespace lw {
namespace {

double reduction_terms(const Tensor& tensor) {
  double terms = 1;
  for (const Axis& axis : tensor.reduce_axes) terms *= static_cast<double>(axis.extent);
  return terms;
}

double body_size(const Tensor& tensor) {
  double nodes = 0;
  visit(tensor.body, [&](const ExprNode&) { ++nodes; });
  return nodes;
}

absl::Status check_effort(const Program& program, double max_operations) {
  double operations = 0, memory = 0;
  for (const Tensor& tensor : program.tensors) {
    if (!tensor.body) continue;
    memory += static_cast<double>(bytes(tensor));
    operations +=
        static_cast<double>(elements(tensor)) * reduction_terms(tensor) * body_size(tensor);
  }
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<double>(sysconf(_SC_PAGESIZE));
  if (operations <= max_operations && memory <= present) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      concat(program.name, ": the reference would take ", static_cast<int64_t>(operations / 1e6),
             " million operations and ", static_cast<int64_t>(memory / 1e6), " MB"));
}

absl::Status compute(const Program& program, size_t position, const std::vector<Data>& values,
                     Data* result) {
  const Tensor& tensor = program.tensors[position];
  Engine engine(program, static_cast<int>(position), false);
  for (int read : reads_of(tensor)) {
    engine.set_source(read, {values[static_cast<size_t>(read)].bytes.data(), nullptr});
  }
  const int64_t total = elements(tensor);
  result->bytes.resize(static_cast<size_t>(bytes(tensor)));
  constexpr int64_t kChunk = 4096;
  std::vector<int64_t> points(static_cast<size_t>(std::min(kChunk, total)));
  std::vector<Element> out(points.size());
  for (int64_t first = 0; first < total; first += kChunk) {
    const int64_t count = std::min(kChunk, total - first);
    std::iota(points.begin(), points.begin() + count, first);
    engine.evaluate(points.data(), count, out.data());
    for (int64_t i = 0; i < count; ++i) {
      const Element& element = out[static_cast<size_t>(i)];
      if (is_float(tensor.type)) {
        store_element(tensor.type, result->bytes.data(), first + i, element.number);
      } else {
        store_integer(tensor.type, result->bytes.data(), first + i, element.integer);
      }
    }
    if (!engine.error().empty()) return absl::OutOfRangeError(engine.error());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Data>> interpret(const Program& program, const std::vector<Data>& in,
                                            double max_operations) {
  const std::vector<int> sources = inputs(program);
  if (in.size() != sources.size()) {
    return absl::InvalidArgumentError(
        concat(program.name, " takes ", sources.size(), " inputs, not ", in.size()));
  }
  RETURN_IF_ERROR(check_effort(program, max_operations));
  std::vector<Data> values(program.tensors.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const Tensor& tensor = program.tensors[static_cast<size_t>(sources[i])];
    if (in[i].bytes.size() != static_cast<size_t>(bytes(tensor))) {
      return absl::InvalidArgumentError(concat("input ", tensor.name, " has ", bytes(tensor),
                                               " bytes, not ", in[i].bytes.size()));
    }
    values[static_cast<size_t>(sources[i])] = in[i];
  }
  std::vector<size_t> last_reader(program.tensors.size());
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    for (int read : reads_of(program.tensors[i])) last_reader[static_cast<size_t>(read)] = i;
  }
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].body) RETURN_IF_ERROR(compute(program, i, values, &values[i]));
    for (size_t j = 0; j < i; ++j) {
      if (program.tensors[j].role == Role::kTemp && last_reader[j] == i) values[j] = Data();
    }
  }
  std::vector<Data> results;
  for (int output : outputs(program)) {
    results.push_back(std::move(values[static_cast<size_t>(output)]));
  }
  return results;
}

}  // namespace lw
