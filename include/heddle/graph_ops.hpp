// Operations on the nodes of graphs beyond the elementwise ones of heddle/graph.hpp, which says
// what all have in common. Axes count from 0, or from the end where negative; none may be listed
// twice. Each call takes, as its last argument, the place that errors name. An error names the
// operation that was called, and behind it one that it is made of where that was refused.
#pragma once

#include <cstdint>
#include <limits>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/graph.hpp"

#pragma GCC visibility push(default)
namespace heddle {

using CallSite = std::source_location;

// Layout: elements go elsewhere, and keep their values.

/// As NumPy: axes from the last one on, where an extent is 1 or the axis is missing. The result has
/// shape `dims`.
Node broadcast_to(const Node& x, const Dims& dims, CallSite where = CallSite::current());
/// Axis k of x becomes axis axes[k] of the result, and has its extent or 1.
Node broadcast_in_dim(const Node& x, const Dims& dims, const Axes& axes,
                      CallSite where = CallSite::current());
/// The same elements in row-major order, as many as before. One extent may be -1: what is left for
/// it.
Node reshape(const Node& x, const std::vector<std::int64_t>& dims,
             CallSite where = CallSite::current());
/// Axis k of the result is axis order[k] of x; without an order all are reversed.
Node transpose(const Node& x, const Axes& order = {}, CallSite where = CallSite::current());
/// Without these axes, each of one element (others are refused); without a list, without all axes
/// of one element.
Node squeeze(const Node& x, const Axes& axes = {}, CallSite where = CallSite::current());
/// With new axes of one element, at these places in the result.
Node expand_dims(const Node& x, const Axes& axes, CallSite where = CallSite::current());

/// Elements start, start + step, ... before `stop`. A negative start or stop counts from the end;
/// what lies outside is cut off, as in Python. A negative step goes down; it begins at the last
/// element, and ends with the first, unless said otherwise.
struct Range {
  static constexpr std::int64_t open = std::numeric_limits<std::int64_t>::min();
  std::int64_t start = open;
  std::int64_t stop = open;
  std::int64_t step = 1;
};
/// A range of each of the first axes; the others stay whole.
Node slice(const Node& x, const std::vector<Range>& ranges, CallSite where = CallSite::current());
Node slice(const Node& x, std::int64_t axis, Range range, CallSite where = CallSite::current());
/// The last element first, along these axes; along all without a list.
Node reverse(const Node& x, const Axes& axes = {}, CallSite where = CallSite::current());
/// One after the other along `axis`, the only one in which their shapes may differ; types are
/// joined.
Node concatenate(const std::vector<Node>& parts, std::int64_t axis = 0,
                 CallSite where = CallSite::current());
/// Parts of one shape, one after the other along a new axis; types are joined.
Node stack(const std::vector<Node>& parts, std::int64_t axis = 0,
           CallSite where = CallSite::current());
/// `count` parts of one size along `axis`, whose extent is a multiple of `count`.
std::vector<Node> split(const Node& x, std::int64_t count, std::int64_t axis = 0,
                        CallSite where = CallSite::current());
/// Elements before and after each axis, and between each two of it. Negative `low` and `high` take
/// elements away.
struct Padding {
  std::int64_t low = 0, high = 0, interior = 0;
};
/// A padding for each of the first axes. `value`: a number, or a scalar node of a type whose values
/// x holds all. What is negative takes away of the elements and of what others of that axis put
/// there; refused where it is more than that.
Node pad(const Node& x, const Operand& value, const std::vector<Padding>& padding,
         CallSite where = CallSite::current());
/// x on and below diagonal `diagonal` of the last two axes, else 0; triu: on and above it.
Node tril(const Node& x, std::int64_t diagonal = 0, CallSite where = CallSite::current());
Node triu(const Node& x, std::int64_t diagonal = 0, CallSite where = CallSite::current());

// Contraction: sums of products. Sums have the type of the products, in an order that the schedule
// decides (heddle/program.hpp).

struct DotAxes {
  Axes contract_a{}, contract_b{};  ///< are summed over, in pairs
  Axes batch_a{}, batch_b{};        ///< are common to both, in pairs: the first axes of the result
};
/// The result's axes: batch axes, the others of a, the others of b.
Node dot_general(const Node& a, const Node& b, const DotAxes& axes,
                 CallSite where = CallSite::current());
/// As NumPy: the last axis of a with the last but one of b (or its only one); axes before these are
/// broadcast.
Node matmul(const Node& a, const Node& b, CallSite where = CallSite::current());
/// "ij,jk->ik": a letter for each axis of each operand; those that are not in the result are summed
/// over. All count in the common type. Without "->": letters that occur once, in alphabetical
/// order. A letter may occur once in each operand. "..." is not known.
Node einsum(std::string_view spec, const std::vector<Node>& operands,
            CallSite where = CallSite::current());

struct ConvOptions {
  std::vector<std::int64_t> step{};  ///< of the filter, for each axis of space; else 1
  /// Of the images with 0; `interior` is their dilation. These zeros take part: an infinite or NaN
  /// weight that meets one gives NaN.
  std::vector<Padding> padding{};
  std::vector<std::int64_t> dilation{};  ///< of the filter; else 1
  std::int64_t groups = 1;               ///< channels and filters are cut into as many
};
/// Images x [count, channels, space...] and filters w [filters, channels / groups, space...] give
/// [count, filters, space...]: the sum over channels and w of x(step * place + dilation * k) w(k).
/// 1 to 3 axes of space; padded images of n elements and filters of k give
/// (n - dilation * (k - 1) - 1) / step + 1.
Node conv(const Node& x, const Node& w, const ConvOptions& options = {},
          CallSite where = CallSite::current());
/// The transpose of conv(): what its gradient gives for the images. x [count, filters, space...]
/// and w as above give [count, channels, space...] of extent s + dilation * (k - 1) - low - high,
/// where x is spread over s = (n - 1) * step + 1 places, or none where n is 0; `interior` is 0.
/// Refused where conv() is: for no place left, but where the filter has one element and x none.
/// Between and around the elements of x are zeros, which take part as those of conv() do.
Node conv_transposed(const Node& x, const Node& w, const ConvOptions& options = {},
                     CallSite where = CallSite::current());

// Reductions over `axes`, over all without a list. Sums and products keep the type of x (bool is
// counted as i32; 16-bit floats are summed in f32 and rounded once); all and any give bool. Of one
// element it is that element; of none: sum 0, product 1, all true, any false, mean and variance
// NaN, logsumexp -inf, and others are refused. Sums begin with 0, so that of several -0 is 0.

struct Reduce {
  bool keep = false;  ///< the axes stay, with one element each
};
Node sum(const Node& x, const Axes& axes = {}, Reduce options = {},
         CallSite where = CallSite::current());
Node product(const Node& x, const Axes& axes = {}, Reduce options = {},
             CallSite where = CallSite::current());
Node maximum(const Node& x, const Axes& axes = {}, Reduce options = {},
             CallSite where = CallSite::current());
Node minimum(const Node& x, const Axes& axes = {}, Reduce options = {},
             CallSite where = CallSite::current());
Node all(const Node& x, const Axes& axes = {}, Reduce options = {},
         CallSite where = CallSite::current());
Node any(const Node& x, const Axes& axes = {}, Reduce options = {},
         CallSite where = CallSite::current());
/// Integers are taken as f32, and 16-bit floats give f32.
Node mean(const Node& x, const Axes& axes = {}, Reduce options = {},
          CallSite where = CallSite::current());
/// The mean of the squared distance to the mean, of the types that mean() has.
Node variance(const Node& x, const Axes& axes = {}, Reduce options = {},
              CallSite where = CallSite::current());
/// log(sum(exp(x))), without overflow.
Node logsumexp(const Node& x, const Axes& axes = {}, Reduce options = {},
               CallSite where = CallSite::current());
/// The place of the largest element along `axis`, i64, of argmin() the smallest: the first of equal
/// ones. Where there are NaN, the first of them, for both.
Node argmax(const Node& x, std::int64_t axis = -1, Reduce options = {},
            CallSite where = CallSite::current());
Node argmin(const Node& x, std::int64_t axis = -1, Reduce options = {},
            CallSite where = CallSite::current());

/// A window over each of the last axes: places 0, step, 2 step, ... as long as it fits, so that an
/// axis of n elements becomes one of (n - dilation * (size - 1) - 1) / step + 1. Refused where it
/// never fits; pad() makes room. A window of one element has no place where there are no elements.
struct Window {
  std::vector<std::int64_t> size{};
  std::vector<std::int64_t> step{};      ///< without: the size
  std::vector<std::int64_t> dilation{};  ///< the distance of its elements; without: 1
};
Node window_sum(const Node& x, const Window& window, CallSite where = CallSite::current());
Node window_maximum(const Node& x, const Window& window, CallSite where = CallSite::current());
Node window_minimum(const Node& x, const Window& window, CallSite where = CallSite::current());
struct Cumulate {
  bool reverse = false;  ///< of the elements from each one on
};
/// Of all elements up to each one along `axis`, in the shape and, but for bool, the type of x.
/// Every element is rounded, 16-bit floats too: for long rows, cast(cumsum(cast(x, f64)), f32).
Node cumsum(const Node& x, std::int64_t axis = -1, Cumulate options = {},
            CallSite where = CallSite::current());
Node cumprod(const Node& x, std::int64_t axis = -1, Cumulate options = {},
             CallSite where = CallSite::current());
Node cummax(const Node& x, std::int64_t axis = -1, Cumulate options = {},
            CallSite where = CallSite::current());

// Indexing: places that are computed. Indices are integers. Read, a place that is outside counts as
// the nearest inside, negative ones as 0; written, it is left out. Writes happen in the order of
// the indices, row-major, so that the last of several to one place stays, and sums have one order.

/// x at indices[0] along its first axis, indices[1] along its second, ...: indices of one shape b
/// for the first m axes of x give [b..., the other axes of x].
Node gather(const Node& x, const std::vector<Node>& indices, CallSite where = CallSite::current());
/// The slices of x at `indices` along `axis`, which the axes of `indices` take the place of.
Node take(const Node& x, const Node& indices, std::int64_t axis = 0,
          CallSite where = CallSite::current());
/// result[i, j, k] = x[i, indices[i, j, k], k] for axis 1: other axes are alike.
Node take_along_axis(const Node& x, const Node& indices, std::int64_t axis = -1,
                     CallSite where = CallSite::current());
/// The window of `sizes` elements that begins at starts: scalars, a number or a node for each axis
/// of x. One that does not fit is moved inside.
Node dynamic_slice(const Node& x, const std::vector<Operand>& starts, const Dims& sizes,
                   CallSite where = CallSite::current());
/// x with `update` in such a window, moved inside as well; of a type whose values x holds all.
Node dynamic_update_slice(const Node& x, const Node& update, const std::vector<Operand>& starts,
                          CallSite where = CallSite::current());
/// What scatter() makes of an element and an update.
enum class Scatter : std::uint8_t { set, add, multiply, maximum, minimum };
/// x, into which updates go at the places that gather() would read: updates [b..., the other axes
/// of x], of a type whose values x holds all. Floats are rounded after each: where many meet,
/// cast() x and updates to f64 before, and the result back.
Node scatter(const Node& x, const std::vector<Node>& indices, const Node& updates,
             Scatter how = Scatter::set, CallSite where = CallSite::current());

// Order. Numbers come in rising order, false before true, and NaN comes behind all numbers. -0 and
// 0 are equal, and so are all NaN; equal elements stay in the order of their places, whichever
// direction is asked for.

struct Sort {
  bool descending = false;  ///< the highest first, and NaN before all numbers
};
/// Along `axis`.
Node sort(const Node& x, std::int64_t axis = -1, Sort options = {},
          CallSite where = CallSite::current());
/// Operands of one shape, all moved alike: into the order of the first one, where it is equal of
/// the second one, and so on for the first `keys` of them.
std::vector<Node> sort(const std::vector<Node>& operands, std::int64_t axis = -1,
                       std::int64_t keys = 1, Sort options = {},
                       CallSite where = CallSite::current());
/// The places along `axis` of the elements that sort() gives, i64.
Node argsort(const Node& x, std::int64_t axis = -1, Sort options = {},
             CallSite where = CallSite::current());
struct TopK {
  Node values;
  Node indices;  ///< their places along the axis, i64
};
/// The first k elements along `axis` of what sort() gives descending: a NaN counts as larger than
/// all numbers, and of equal elements the first ones are taken.
TopK top_k(const Node& x, std::int64_t k, std::int64_t axis = -1,
           CallSite where = CallSite::current());
enum class Side : std::uint8_t { left, right };
/// For each value, how many elements of `sorted`, which has one axis and is in rising order, come
/// before it: left, or not behind it: right. i64. Where `sorted` is not in order, any number from 0
/// to its extent.
Node searchsorted(const Node& sorted, const Node& values, Side side = Side::left,
                  CallSite where = CallSite::current());

// Layers of networks, made of the above, in the shape of x. Integers are taken as f32, and 16-bit
// floats give f32.

/// exp(x) / sum(exp(x)) along `axis`, without overflow. Refused for an axis without elements.
Node softmax(const Node& x, std::int64_t axis = -1, CallSite where = CallSite::current());
/// log(softmax(x)), without the loss of small ones. Refused as softmax() is.
Node log_softmax(const Node& x, std::int64_t axis = -1, CallSite where = CallSite::current());
/// (x - mean) / sqrt(variance + epsilon) over the last axis, times `scale`, plus `shift`, which
/// broadcast to the shape of x.
Node layer_norm(const Node& x, const Node& scale, const Node& shift, double epsilon = 1e-5,
                CallSite where = CallSite::current());
/// x / sqrt(mean(x * x) + epsilon) over the last axis, times `scale`.
Node rms_norm(const Node& x, const Node& scale, double epsilon = 1e-5,
              CallSite where = CallSite::current());
Node gelu(const Node& x, CallSite where = CallSite::current());  ///< x (1 + erf(x / sqrt(2))) / 2
Node silu(const Node& x, CallSite where = CallSite::current());  ///< x / (1 + exp(-x))
Node sigmoid(const Node& x, CallSite where = CallSite::current());  ///< 1 / (1 + exp(-x))
/// 1 where the last axis is at indices(...), else 0: [..., depth]. Indices outside give none.
Node one_hot(const Node& indices, std::int64_t depth, DType dtype = DType::f32,
             CallSite where = CallSite::current());
/// -log_softmax(logits) at `labels`, in the shape of `labels`: the last axis of `logits` is that of
/// classes, and the others are those of labels, integers; a label that is outside counts as the
/// nearest inside. Rows that have none: select(labels < 0, 0, cross_entropy(logits, labels)).
Node cross_entropy(const Node& logits, const Node& labels, CallSite where = CallSite::current());
struct AttentionOptions {
  bool causal = false;  ///< a query sees keys up to its own place; the last query sees all
  double scale = 0;     ///< 0: 1 / sqrt(depth)
};
/// softmax(scale q k^T) v over the last two axes: q [..., m, depth], k [..., n, depth], v [..., n,
/// e], n at least 1, give [..., m, e]. `mask`: bool, broadcast to [..., m, n]; where it is false, a
/// key is not seen. A query that sees none gives NaN. The values of keys that are not seen take
/// part with weight 0, so that those have to be finite.
Node attention(const Node& q, const Node& k, const Node& v, const AttentionOptions& options = {},
               const Node& mask = {}, CallSite where = CallSite::current());

// Random numbers. A key is a u64 scalar; the counter of an element is its row-major place, so bits
// depend on nothing else. Threefry-2x32-20 (Salmon et al., SC 2011).

/// [count] new keys.
Node split_key(const Node& key, std::int64_t count, CallSite where = CallSite::current());
/// A key for this and that: a step, say, which may be computed; an integer, modulo 2^64.
Node fold_in(const Node& key, const Operand& data, CallSite where = CallSite::current());
Node random_bits(const Node& key, const Dims& dims, CallSite where = CallSite::current());  ///< u64
/// f32, at least 0 and below 1, in steps of 2^-24. uniform() makes the same of bits.
Node random_uniform(const Node& key, const Dims& dims, CallSite where = CallSite::current());
/// Mean 0 and variance 1, f32 (Box and Muller, 1958).
Node random_normal(const Node& key, const Dims& dims, CallSite where = CallSite::current());
/// bool[dims]: true with this probability: a number from 0 to 1, or a node that broadcasts to
/// `dims`, of whose elements those below 0 count as 0, and those above 1 as 1.
Node bernoulli(const Node& key, const Operand& probability, const Dims& dims,
               CallSite where = CallSite::current());
/// One place along the last axis of `logits`, i64, each with the probability that softmax gives it
/// (Gumbel's maximum): in the shape of `logits` without that axis.
Node categorical(const Node& key, const Node& logits, CallSite where = CallSite::current());
/// 0, 1, ... below `count`, i64, in a random order.
Node permutation(const Node& key, std::int64_t count, CallSite where = CallSite::current());
/// x / (1 - rate) where a random number is not below `rate`, else 0.
Node dropout(const Node& x, const Node& key, double rate, CallSite where = CallSite::current());

}  // namespace heddle
#pragma GCC visibility pop
