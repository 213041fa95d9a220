// Operations on nodes of graphs, beyond the elementwise operations. The rules common to every
// operation are in heddle/graph.hpp. Axes count from 0, or from the end if negative; a list names
// an axis at most once. The last argument of every call is the source location for errors. An error
// names the operation that was called, followed by the inner operation that was refused, if any.
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

// Layout: elements move, values stay the same.

/// Broadcasts to shape `dims`, as NumPy does: aligned at the last axis, where an extent is 1 or an
/// axis is missing.
Node broadcast_to(const Node& x, const Dims& dims, CallSite where = CallSite::current());
/// Axis k of x becomes axis axes[k] of the result; x's extent there must be 1 or the result's.
Node broadcast_in_dim(const Node& x, const Dims& dims, const Axes& axes,
                      CallSite where = CallSite::current());
/// Keeps the elements in row-major order; their number must not change. One extent may be -1: it is
/// computed from the others.
Node reshape(const Node& x, const std::vector<std::int64_t>& dims,
             CallSite where = CallSite::current());
/// Axis k of the result is axis order[k] of x; without an order the axes are reversed.
Node transpose(const Node& x, const Axes& order = {}, CallSite where = CallSite::current());
/// Removes the listed axes of one element (longer axes are refused); without a list, removes every
/// axis of one element.
Node squeeze(const Node& x, const Axes& axes = {}, CallSite where = CallSite::current());
/// Inserts new axes of one element at the listed positions of the result.
Node expand_dims(const Node& x, const Axes& axes, CallSite where = CallSite::current());

/// The elements start, start + step, ... before `stop`. A negative start or stop counts from the
/// end; bounds outside the axis are clamped, as in Python. With a negative step the range descends,
/// by default from the last element to the first, inclusive.
struct Range {
  static constexpr std::int64_t open = std::numeric_limits<std::int64_t>::min();
  std::int64_t start = open;
  std::int64_t stop = open;
  std::int64_t step = 1;
};
/// One range for each leading axis; the remaining axes stay whole.
Node slice(const Node& x, const std::vector<Range>& ranges, CallSite where = CallSite::current());
Node slice(const Node& x, std::int64_t axis, Range range, CallSite where = CallSite::current());
/// Reverses the listed axes; without a list, every axis.
Node reverse(const Node& x, const Axes& axes = {}, CallSite where = CallSite::current());
/// Joins the parts along `axis`, the only axis in which their shapes may differ; the result has the
/// common type.
Node concatenate(const std::vector<Node>& parts, std::int64_t axis = 0,
                 CallSite where = CallSite::current());
/// Joins parts of one shape along a new axis; the result has the common type.
Node stack(const std::vector<Node>& parts, std::int64_t axis = 0,
           CallSite where = CallSite::current());
/// Cuts x into `count` parts of equal size along `axis`, whose extent must be a multiple of
/// `count`.
std::vector<Node> split(const Node& x, std::int64_t count, std::int64_t axis = 0,
                        CallSite where = CallSite::current());
/// The number of elements to insert before an axis, after it, and between neighbours. A negative
/// `low` or `high` removes elements.
struct Padding {
  std::int64_t low = 0, high = 0, interior = 0;
};
/// Pads the leading axes, one Padding per axis. `value`: a number, or a scalar node; x's type must
/// be able to represent every value of its type. A negative amount removes original elements and
/// inserted ones of the same axis; refused if it exceeds their number.
Node pad(const Node& x, const Operand& value, const std::vector<Padding>& padding,
         CallSite where = CallSite::current());
/// tril: x on and below diagonal `diagonal` of the last two axes, 0 elsewhere; triu: on and above.
Node tril(const Node& x, std::int64_t diagonal = 0, CallSite where = CallSite::current());
Node triu(const Node& x, std::int64_t diagonal = 0, CallSite where = CallSite::current());

// Contraction: sums of products. Sums have the type of the products and are added in an order that
// the schedule decides (heddle/program.hpp).

struct DotAxes {
  Axes contract_a{}, contract_b{};  ///< summed over, in pairs
  Axes batch_a{}, batch_b{};        ///< kept, in pairs: the first axes of the result
};
/// The result's axes: the batch axes, the remaining axes of a, the remaining axes of b.
Node dot_general(const Node& a, const Node& b, const DotAxes& axes,
                 CallSite where = CallSite::current());
/// As NumPy: contracts the last axis of a with the last but one of b (or the only axis of b);
/// leading axes are broadcast.
Node matmul(const Node& a, const Node& b, CallSite where = CallSite::current());
/// "ij,jk->ik": a letter for every axis of an operand; letters missing in the result are summed
/// over. Operands are converted to the common type. Without "->", the result has the letters that
/// occur once, in alphabetical order. An operand must not repeat a letter. "..." is not supported.
Node einsum(std::string_view spec, const std::vector<Node>& operands,
            CallSite where = CallSite::current());

struct ConvOptions {
  std::vector<std::int64_t> step{};  ///< stride of the filter, for each axis of space; else 1
  /// Zero padding of the images; `interior` is their dilation. The zeros are multiplied too: an
  /// infinite or NaN weight times a padding zero gives NaN.
  std::vector<Padding> padding{};
  std::vector<std::int64_t> dilation{};  ///< dilation of the filter; else 1
  std::int64_t groups = 1;               ///< number of groups of channels and filters
};
/// Convolution. Images x [count, channels, space...] and filters w [filters, channels / groups,
/// space...] give [count, filters, space...]: the sum over channels and filter elements k of x(step
/// * place + dilation * k) w(k). 1 to 3 axes of space; an axis of n elements after padding and a
/// filter of k elements give (n - dilation * (k - 1) - 1) / step + 1 elements.
Node conv(const Node& x, const Node& w, const ConvOptions& options = {},
          CallSite where = CallSite::current());
/// The transpose of conv(), i.e. its gradient with respect to the images. x [count, filters,
/// space...] and w as above give [count, channels, space...] of extent s + dilation * (k - 1) - low
/// - high, where x is spread over s = (n - 1) * step + 1 places, or over none if n is 0; `interior`
/// must be 0. Refused where conv() would be refused for lack of a place, except if the filter has
/// one element and x none. Zeros between and around the elements of x are multiplied, as in conv().
Node conv_transposed(const Node& x, const Node& w, const ConvOptions& options = {},
                     CallSite where = CallSite::current());

// Reductions over `axes`; without a list, over every axis. Sums and products keep the type of x
// (bool is counted as i32; 16-bit floats are summed in f32 and rounded once); all() and any()
// return bool. A reduction of one element returns the element in that type; variance() returns 0. A
// reduction of no elements returns: sum 0, product 1, all true, any false, mean and variance NaN,
// logsumexp -inf; other reductions are refused. Sums begin with +0, so a sum of several -0 is 0.

struct Reduce {
  bool keep = false;  ///< reduced axes stay, with one element each
  /// x is converted to this type first. Sums of u8 or i8 wrap, as all integers do: .as = i64 keeps
  /// every sum of fewer than 2^55 of them.
  std::optional<DType> as{};
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
/// Integers are converted to f32; 16-bit floats give f32.
Node mean(const Node& x, const Axes& axes = {}, Reduce options = {},
          CallSite where = CallSite::current());
/// The mean squared distance to the mean; result types as in mean().
Node variance(const Node& x, const Axes& axes = {}, Reduce options = {},
              CallSite where = CallSite::current());
/// log(sum(exp(x))), without overflow.
Node logsumexp(const Node& x, const Axes& axes = {}, Reduce options = {},
               CallSite where = CallSite::current());
/// The index of the largest element along `axis`, i64; argmin(): of the smallest. Among equal
/// elements, the first; if there are NaN, the index of the first NaN, in both functions.
Node argmax(const Node& x, std::int64_t axis = -1, Reduce options = {},
            CallSite where = CallSite::current());
Node argmin(const Node& x, std::int64_t axis = -1, Reduce options = {},
            CallSite where = CallSite::current());

/// A window over each of the last axes, at places 0, step, 2 step, ... as long as the window fits:
/// an axis of n elements becomes one of (n - dilation * (size - 1) - 1) / step + 1. Refused if the
/// window never fits; pad() makes room. A window of one element has no place on an axis without
/// elements.
struct Window {
  std::vector<std::int64_t> size{};
  std::vector<std::int64_t> step{};      ///< default: the size
  std::vector<std::int64_t> dilation{};  ///< distance of the window's elements; default: 1
};
Node window_sum(const Node& x, const Window& window, CallSite where = CallSite::current());
Node window_maximum(const Node& x, const Window& window, CallSite where = CallSite::current());
Node window_minimum(const Node& x, const Window& window, CallSite where = CallSite::current());
struct Cumulate {
  bool reverse = false;  ///< accumulate from the end of the axis
};
/// Accumulates along `axis`: every element includes the preceding elements and its own value. The
/// result has the shape of x and, except for bool, its type. Every element is rounded, 16-bit
/// floats too: for long rows, use cast(cumsum(cast(x, f64)), f32).
Node cumsum(const Node& x, std::int64_t axis = -1, Cumulate options = {},
            CallSite where = CallSite::current());
Node cumprod(const Node& x, std::int64_t axis = -1, Cumulate options = {},
             CallSite where = CallSite::current());
Node cummax(const Node& x, std::int64_t axis = -1, Cumulate options = {},
            CallSite where = CallSite::current());

// Indexing with computed positions. Indices are integers. In reads, a position outside the axis is
// clamped to the nearest one inside, a negative one to 0; writes outside are dropped. Writes happen
// in row-major order of the indices: of several writes to one place the last remains, and sums have
// one defined order.

/// Reads x at indices[0] along its first axis, indices[1] along its second, ...: m indices of one
/// shape b give [b..., the remaining axes of x].
Node gather(const Node& x, const std::vector<Node>& indices, CallSite where = CallSite::current());
/// The slices of x at `indices` along `axis`; the axes of `indices` replace `axis` in the result.
Node take(const Node& x, const Node& indices, std::int64_t axis = 0,
          CallSite where = CallSite::current());
/// The slice of x at `index` along `axis`, which the result lacks; a negative index counts from the
/// end. Refuses an index outside the axis.
Node take(const Node& x, std::int64_t index, std::int64_t axis = 0,
          CallSite where = CallSite::current());
/// result[i, j, k] = x[i, indices[i, j, k], k] for axis 1; the same for other axes.
Node take_along_axis(const Node& x, const Node& indices, std::int64_t axis = -1,
                     CallSite where = CallSite::current());
/// The window of `sizes` elements that begins at `starts`: a scalar (number or node) for each axis
/// of x. A window that does not fit is moved inside x.
Node dynamic_slice(const Node& x, const std::vector<Operand>& starts, const Dims& sizes,
                   CallSite where = CallSite::current());
/// x with `update` written to a window, placed as in dynamic_slice(). x's type must be able to
/// represent every value of update's type.
Node dynamic_update_slice(const Node& x, const Node& update, const std::vector<Operand>& starts,
                          CallSite where = CallSite::current());
/// How scatter() combines an element with an update.
enum class Scatter : std::uint8_t { set, add, multiply, maximum, minimum };
/// x with `updates` [b..., the remaining axes of x] written where gather() would read. x's type
/// must be able to represent every value of the type of `updates`. Floats are rounded after every
/// update: if many updates meet, cast() x and updates to f64 before, and the result back.
Node scatter(const Node& x, const std::vector<Node>& indices, const Node& updates,
             Scatter how = Scatter::set, CallSite where = CallSite::current());

// Order: ascending, false before true, NaN after every number. -0 equals 0, and NaN equals NaN;
// sorting is stable in both directions. One array sorted alone has -0 below 0; argsort(), top_k()
// and sorts of several operands take them as equal.

struct Sort {
  bool descending = false;  ///< the largest first, and NaN before every number
};
/// Sorts along `axis`.
Node sort(const Node& x, std::int64_t axis = -1, Sort options = {},
          CallSite where = CallSite::current());
/// Permutes operands of one shape alike: sorted by the first operand, ties by the second, and so on
/// for the first `keys` operands.
std::vector<Node> sort(const std::vector<Node>& operands, std::int64_t axis = -1,
                       std::int64_t keys = 1, Sort options = {},
                       CallSite where = CallSite::current());
/// The positions along `axis` of the elements that sort() returns, i64.
Node argsort(const Node& x, std::int64_t axis = -1, Sort options = {},
             CallSite where = CallSite::current());
struct TopK {
  Node values;
  Node indices;  ///< positions along the axis, i64
};
/// The first k elements along `axis` of a descending sort(): NaN counts as larger than every
/// number, and of equal elements the first ones are taken.
TopK top_k(const Node& x, std::int64_t k, std::int64_t axis = -1,
           CallSite where = CallSite::current());
enum class Side : std::uint8_t { left, right };
/// For each value, the number of elements of `sorted` before its insertion point, i64: elements
/// that sort before the value (left), or not after it (right). `sorted` has one axis, in ascending
/// order; if it is not in order, the result is any number from 0 to its extent.
Node searchsorted(const Node& sorted, const Node& values, Side side = Side::left,
                  CallSite where = CallSite::current());

// Layers of networks, composed of the operations above; results have the shape of x. Integers are
// converted to f32; 16-bit floats give f32.

/// exp(x) / sum(exp(x)) along `axis`, without overflow. Refused for an axis without elements.
Node softmax(const Node& x, std::int64_t axis = -1, CallSite where = CallSite::current());
/// log(softmax(x)), without loss of small values. Refused as softmax() is.
Node log_softmax(const Node& x, std::int64_t axis = -1, CallSite where = CallSite::current());
/// (x - mean) / sqrt(variance + epsilon) over the last axis, times `scale`, plus `shift`. Both are
/// broadcast to the shape of x.
Node layer_norm(const Node& x, const Node& scale, const Node& shift, double epsilon = 1e-5,
                CallSite where = CallSite::current());
/// x / sqrt(mean(x * x) + epsilon) over the last axis, times `scale`.
Node rms_norm(const Node& x, const Node& scale, double epsilon = 1e-5,
              CallSite where = CallSite::current());
Node gelu(const Node& x, CallSite where = CallSite::current());  ///< x (1 + erf(x / sqrt(2))) / 2
Node silu(const Node& x, CallSite where = CallSite::current());  ///< x / (1 + exp(-x))
Node sigmoid(const Node& x, CallSite where = CallSite::current());  ///< 1 / (1 + exp(-x))
/// [..., depth]: 1 where the position along the last axis equals indices(...), else 0. An index
/// outside gives zeros only.
Node one_hot(const Node& indices, std::int64_t depth, DType dtype = DType::f32,
             CallSite where = CallSite::current());
/// -log_softmax(logits) at `labels`, in the shape of `labels` (integers): the last axis of `logits`
/// is the class, the leading axes are those of `labels`. A label outside is clamped to the nearest
/// class. For rows without a label: select(labels < 0, 0, cross_entropy(logits, labels)).
Node cross_entropy(const Node& logits, const Node& labels, CallSite where = CallSite::current());
struct AttentionOptions {
  bool causal = false;  ///< a query sees keys up to its own position; the last query sees every key
  double scale = 0;     ///< 0: 1 / sqrt(depth)
};
/// softmax(scale q k^T) v over the last two axes: q [..., m, depth], k [..., n, depth] and v [...,
/// n, e], n at least 1, give [..., m, e]. `mask`: bool, broadcast to [..., m, n]; false hides a
/// key. A query that sees no key gives NaN. Values of hidden keys are multiplied by weight 0, so
/// they must be finite.
Node attention(const Node& q, const Node& k, const Node& v, const AttentionOptions& options = {},
               const Node& mask = {}, CallSite where = CallSite::current());

// Random numbers: Threefry-2x32-20 (Salmon et al., SC 2011). A key is a u64 scalar; the counter of
// an element is its row-major position. The bits depend on the key and the counter only.

/// New keys, [count].
Node split_key(const Node& key, std::int64_t count, CallSite where = CallSite::current());
/// A key derived from `key` and `data`: an integer, modulo 2^64, possibly a computed node such as a
/// step.
Node fold_in(const Node& key, const Operand& data, CallSite where = CallSite::current());
Node random_bits(const Node& key, const Dims& dims, CallSite where = CallSite::current());  ///< u64
/// f32 in [0, 1), in steps of 2^-24. uniform() converts bits in the same way.
Node random_uniform(const Node& key, const Dims& dims, CallSite where = CallSite::current());
/// Mean 0 and variance 1, f32 (Box and Muller, 1958).
Node random_normal(const Node& key, const Dims& dims, CallSite where = CallSite::current());
/// bool[dims], true with the given probability: a number from 0 to 1, or a node that broadcasts to
/// `dims`; elements below 0 count as 0, above 1 as 1.
Node bernoulli(const Node& key, const Operand& probability, const Dims& dims,
               CallSite where = CallSite::current());
/// Draws one position along the last axis of `logits`, i64, with the probabilities of
/// softmax(logits) (Gumbel-max). The result has the shape of `logits` without the last axis.
Node categorical(const Node& key, const Node& logits, CallSite where = CallSite::current());
/// 0, 1, ..., count - 1 in random order, i64.
Node permutation(const Node& key, std::int64_t count, CallSite where = CallSite::current());
/// x / (1 - rate) where a random number is at least `rate`, else 0.
Node dropout(const Node& x, const Node& key, double rate, CallSite where = CallSite::current());

}  // namespace heddle
#pragma GCC visibility pop
