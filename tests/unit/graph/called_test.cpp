// Calls that are refused: each names the operation that was called, not one that it is made of, and
// where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"

namespace heddle::jit::testing {
namespace {

using enum DType;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Call {
  std::string operation;
  std::function<void()> make;
};

class CalledTest : public ::testing::Test {
 protected:
  /// In order; messages name the operation and this file.
  static void expect_refused(const std::vector<Call>& calls) {
    for (std::size_t k = 0; k < calls.size(); ++k) {
      try {
        calls[k].make();
        ADD_FAILURE() << "call " << k << " of " << calls[k].operation << " was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        const std::string message(error.status().message());
        EXPECT_THAT(message, StartsWith("'" + calls[k].operation)) << "call " << k;
        EXPECT_THAT(message, HasSubstr(", at called_test.cpp:")) << "call " << k;
      }
    }
  }

  /// What the call is told, or "accepted".
  static std::string message_of(const std::function<Node()>& make) {
    try {
      static_cast<void>(make());
    } catch (const Error& error) {
      return std::string(error.status().message());
    }
    return "accepted";
  }

  const Graph g{"g"}, h{"h"};
  const Node none;
  const Node x = g.parameter("x", {f32, {4, 6}});
  const Node y = h.parameter("y", {f32, {4, 6}});
  const Node i = g.parameter("i", {i64, {3}});
  const Node b = g.parameter("b", {bool_, {4, 6}});
  const Node s = g.parameter("s", {f32, {}});
  const Node s2 = h.parameter("s2", {f32, {}});
  const Node v = g.parameter("v", {f32, {5}});
  const Node u = g.parameter("u", {u64, {4, 6}});
  const Node e = g.parameter("e", {f32, {0}});
  const Node key = g.parameter("key", {u64, {}});
  const Node hk = h.parameter("hk", {u64, {}});
  const Node big = g.parameter("big", {f32, {2, 3, 4}});
  const Node turned = g.parameter("turned", {f32, {3, 4, 2}});
  const Node whole = g.parameter("whole", {i64, {6, 4}});
  const Node img = g.parameter("img", {f32, {1, 3, 8, 8}});
  const Node small = g.parameter("small", {f32, {1, 3, 2, 2}});
  const Node w = g.parameter("w", {f32, {4, 3, 3, 3}});
  const Node w2 = g.parameter("w2", {f32, {4, 5, 3, 3}});
  const Node four = g.parameter("four", {i64, {4}});
  const Node wide = g.parameter("wide", {i64, {5, 2}});
  const Node more = g.parameter("more", {f32, {5, 6}});
  const Node many = g.parameter("many", {f32, {3, 3, 4}});
  const Node masks = g.parameter("masks", {bool_, {5, 4, 4}});
  const Node no_classes = g.parameter("no_classes", {f32, {3, 0}});
  const Node other_mask = h.parameter("other_mask", {bool_, {4, 4}});
};

// F2, G16
TEST_F(CalledTest, LayoutOperations) {
  expect_refused({
      {"broadcast_to", [&] { return static_cast<void>(broadcast_to(none, {1})); }},
      {"broadcast_to", [&] { return static_cast<void>(broadcast_to(x, {5})); }},
      {"broadcast_to", [&] { return static_cast<void>(broadcast_to(x, {-1, 4, 6})); }},
      {"broadcast_in_dim", [&] { return static_cast<void>(broadcast_in_dim(none, {1}, {0})); }},
      {"broadcast_in_dim", [&] { return static_cast<void>(broadcast_in_dim(x, {5, 6}, {0, 1})); }},
      {"broadcast_in_dim", [&] { return static_cast<void>(broadcast_in_dim(x, {4, 6}, {0, 0})); }},
      {"broadcast_in_dim", [&] { return static_cast<void>(broadcast_in_dim(x, {4, 6}, {0})); }},
      {"reshape", [&] { return static_cast<void>(reshape(none, {1})); }},
      {"reshape", [&] { return static_cast<void>(reshape(x, {5})); }},
      {"reshape", [&] { return static_cast<void>(reshape(x, {-1, -1})); }},
      {"reshape", [&] { return static_cast<void>(reshape(x, {-4, -6})); }},
      {"transpose", [&] { return static_cast<void>(transpose(none)); }},
      {"transpose", [&] { return static_cast<void>(transpose(x, {0})); }},
      {"transpose", [&] { return static_cast<void>(transpose(x, {0, 0})); }},
      {"transpose", [&] { return static_cast<void>(transpose(x, {0, 7})); }},
      {"squeeze", [&] { return static_cast<void>(squeeze(none)); }},
      {"squeeze", [&] { return static_cast<void>(squeeze(x, {0})); }},
      {"squeeze", [&] { return static_cast<void>(squeeze(x, {9})); }},
      {"expand_dims", [&] { return static_cast<void>(expand_dims(none, {0})); }},
      {"expand_dims", [&] { return static_cast<void>(expand_dims(x, {9})); }},
      {"expand_dims", [&] { return static_cast<void>(expand_dims(x, {0, 0})); }},
      {"slice", [&] { return static_cast<void>(slice(none, 0, {})); }},
      {"slice", [&] { return static_cast<void>(slice(x, 9, {})); }},
      {"slice", [&] { return static_cast<void>(slice(x, {{}, {}, {}})); }},
      {"slice", [&] { return static_cast<void>(slice(x, 0, Range{0, 4, 0})); }},
      {"reverse", [&] { return static_cast<void>(reverse(none)); }},
      {"reverse", [&] { return static_cast<void>(reverse(x, {9})); }},
      {"reverse", [&] { return static_cast<void>(reverse(x, {0, 0})); }},
      {"concatenate", [&] { return static_cast<void>(concatenate({})); }},
      {"concatenate", [&] { return static_cast<void>(concatenate({none})); }},
      {"concatenate", [&] { return static_cast<void>(concatenate({x, y})); }},
      {"concatenate", [&] { return static_cast<void>(concatenate({x, v})); }},
      {"stack", [&] { return static_cast<void>(stack({})); }},
      {"stack", [&] { return static_cast<void>(stack({none})); }},
      {"stack", [&] { return static_cast<void>(stack({x, y})); }},
      {"stack", [&] { return static_cast<void>(stack({x, v})); }},
      {"split", [&] { return static_cast<void>(split(none, 2)); }},
      {"split", [&] { return static_cast<void>(split(x, 3)); }},
      {"split", [&] { return static_cast<void>(split(x, 0)); }},
      {"split", [&] { return static_cast<void>(split(x, 2, 7)); }},
      {"pad", [&] { return static_cast<void>(pad(none, 0, {})); }},
      {"pad", [&] { return static_cast<void>(pad(x, 0, {{-9, 0, 0}, {0, 0, 0}})); }},
      {"pad", [&] { return static_cast<void>(pad(x, 0, {{0, 0, -1}, {0, 0, 0}})); }},
      {"pad", [&] { return static_cast<void>(pad(x, y, {{0, 0, 0}, {0, 0, 0}})); }},
      {"tril", [&] { return static_cast<void>(tril(none)); }},
      {"tril", [&] { return static_cast<void>(tril(v)); }},
      {"tril", [&] { return static_cast<void>(tril(s)); }},
      {"triu", [&] { return static_cast<void>(triu(none)); }},
      {"triu", [&] { return static_cast<void>(triu(v)); }},
      {"pad", [&] { return static_cast<void>(pad(x, s2, {{1, 0}})); }},
      {"pad", [&] { return static_cast<void>(pad(cast(x, i8), s, {{1, 0}})); }},
  });
}

// F2, G16
TEST_F(CalledTest, Contractions) {
  expect_refused({
      {"dot_general", [&] { return static_cast<void>(dot_general(none, x, {})); }},
      {"dot_general", [&] { return static_cast<void>(dot_general(x, y, {})); }},
      {"dot_general", [&] { return static_cast<void>(dot_general(x, x, {{1}, {0}})); }},
      {"dot_general",
       [&] { return static_cast<void>(dot_general(x, x, {.contract_a = {1}, .contract_b = {}})); }},
      {"matmul", [&] { return static_cast<void>(matmul(none, x)); }},
      {"matmul", [&] { return static_cast<void>(matmul(x, y)); }},
      {"matmul", [&] { return static_cast<void>(matmul(x, x)); }},
      {"einsum", [&] { return static_cast<void>(einsum("ij,jk->ik", {x, none})); }},
      {"einsum", [&] { return static_cast<void>(einsum("ij,jk->ik", {x, x})); }},
      {"einsum", [&] { return static_cast<void>(einsum("ij,jk->ik", {x, y})); }},
      {"einsum", [&] { return static_cast<void>(einsum("ij->k", {x})); }},
      {"conv", [&] { return static_cast<void>(conv(none, w)); }},
      {"conv", [&] { return static_cast<void>(conv(img, w2)); }},
      {"conv", [&] { return static_cast<void>(conv(x, x)); }},
      {"conv_transposed", [&] { return static_cast<void>(conv_transposed(none, w)); }},
      {"conv_transposed", [&] { return static_cast<void>(conv_transposed(img, w2)); }},
      {"conv_transposed", [&] { return static_cast<void>(conv_transposed(x, x)); }},
      {"conv_transposed",
       [&] {
         return static_cast<void>(conv_transposed(conv(img, w), w, {.padding = {{0, 0, 1}}}));
       }},
  });
}

// F2, G16
TEST_F(CalledTest, Reductions) {
  expect_refused({
      {"maximum", [&] { return static_cast<void>(maximum(e)); }},
      {"minimum", [&] { return static_cast<void>(minimum(e)); }},
      {"argmax", [&] { return static_cast<void>(argmax(e)); }},
      {"argmax", [&] { return static_cast<void>(argmax(none)); }},
      {"argmax", [&] { return static_cast<void>(argmax(x, 5)); }},
      {"argmax", [&] { return static_cast<void>(argmax(s)); }},
      {"argmin", [&] { return static_cast<void>(argmin(e)); }},
      {"argmin", [&] { return static_cast<void>(argmin(none)); }},
      {"argmin", [&] { return static_cast<void>(argmin(x, 5)); }},
      {"window_sum", [&] { return static_cast<void>(window_sum(none, {{2, 2}})); }},
      {"window_sum", [&] { return static_cast<void>(window_sum(x, {{9, 9}})); }},
      {"window_sum", [&] { return static_cast<void>(window_sum(x, {{0, 2}})); }},
      {"window_sum", [&] { return static_cast<void>(window_sum(x, {{2, 2}, {0, 1}})); }},
      {"window_maximum", [&] { return static_cast<void>(window_maximum(none, {{2, 2}})); }},
      {"window_maximum", [&] { return static_cast<void>(window_maximum(x, {{9, 9}})); }},
      {"window_maximum", [&] { return static_cast<void>(window_maximum(x, {{0, 2}})); }},
      {"window_minimum", [&] { return static_cast<void>(window_minimum(none, {{2, 2}})); }},
      {"window_minimum", [&] { return static_cast<void>(window_minimum(x, {{9, 9}})); }},
      {"sum", [&] { return static_cast<void>(sum(none)); }},
      {"sum", [&] { return static_cast<void>(sum(x, {9})); }},
      {"sum", [&] { return static_cast<void>(sum(x, {0, 0})); }},
      {"sum", [&] { return static_cast<void>(sum(x, {-3})); }},
      {"product", [&] { return static_cast<void>(product(none)); }},
      {"product", [&] { return static_cast<void>(product(x, {0, 0})); }},
      {"maximum", [&] { return static_cast<void>(maximum(none)); }},
      {"maximum", [&] { return static_cast<void>(maximum(x, {0, 0})); }},
      {"minimum", [&] { return static_cast<void>(minimum(none)); }},
      {"minimum", [&] { return static_cast<void>(minimum(x, {0, 0})); }},
      {"all", [&] { return static_cast<void>(all(none)); }},
      {"all", [&] { return static_cast<void>(all(x, {0, 0})); }},
      {"any", [&] { return static_cast<void>(any(none)); }},
      {"any", [&] { return static_cast<void>(any(x, {0, 0})); }},
      {"mean", [&] { return static_cast<void>(mean(none)); }},
      {"mean", [&] { return static_cast<void>(mean(x, {9})); }},
      {"mean", [&] { return static_cast<void>(mean(x, {0, 0})); }},
      {"mean", [&] { return static_cast<void>(mean(x, {-3})); }},
      {"variance", [&] { return static_cast<void>(variance(none)); }},
      {"variance", [&] { return static_cast<void>(variance(x, {9})); }},
      {"variance", [&] { return static_cast<void>(variance(x, {0, 0})); }},
      {"variance", [&] { return static_cast<void>(variance(x, {-3})); }},
      {"logsumexp", [&] { return static_cast<void>(logsumexp(none)); }},
      {"logsumexp", [&] { return static_cast<void>(logsumexp(x, {9})); }},
      {"logsumexp", [&] { return static_cast<void>(logsumexp(x, {0, 0})); }},
      {"logsumexp", [&] { return static_cast<void>(logsumexp(x, {-3})); }},
      {"cumsum", [&] { return static_cast<void>(cumsum(none)); }},
      {"cumsum", [&] { return static_cast<void>(cumsum(x, 9)); }},
      {"cumsum", [&] { return static_cast<void>(cumsum(s)); }},
      {"cumprod", [&] { return static_cast<void>(cumprod(none)); }},
      {"cumprod", [&] { return static_cast<void>(cumprod(x, 9)); }},
      {"cumprod", [&] { return static_cast<void>(cumprod(s)); }},
      {"cummax", [&] { return static_cast<void>(cummax(none)); }},
      {"cummax", [&] { return static_cast<void>(cummax(x, 9)); }},
      {"cummax", [&] { return static_cast<void>(cummax(s)); }},
  });
}

// F2, G16
TEST_F(CalledTest, PlacesAndOrder) {
  expect_refused({
      {"gather", [&] { return static_cast<void>(gather(none, {i})); }},
      {"gather", [&] { return static_cast<void>(gather(x, {})); }},
      {"gather", [&] { return static_cast<void>(gather(x, {none})); }},
      {"gather", [&] { return static_cast<void>(gather(x, {v})); }},
      {"take", [&] { return static_cast<void>(take(none, i)); }},
      {"take", [&] { return static_cast<void>(take(x, v)); }},
      {"take", [&] { return static_cast<void>(take(x, i, 9)); }},
      {"take_along_axis", [&] { return static_cast<void>(take_along_axis(none, i)); }},
      {"take_along_axis", [&] { return static_cast<void>(take_along_axis(x, x)); }},
      {"take_along_axis", [&] { return static_cast<void>(take_along_axis(x, i, 9)); }},
      {"dynamic_slice", [&] { return static_cast<void>(dynamic_slice(none, {0}, {1})); }},
      {"dynamic_slice", [&] { return static_cast<void>(dynamic_slice(x, {0}, {1})); }},
      {"dynamic_slice", [&] { return static_cast<void>(dynamic_slice(x, {0, 0}, {9, 9})); }},
      {"dynamic_slice", [&] { return static_cast<void>(dynamic_slice(x, {0, 0}, {-1, 1})); }},
      {"dynamic_update_slice",
       [&] { return static_cast<void>(dynamic_update_slice(none, x, {0, 0})); }},
      {"dynamic_update_slice",
       [&] { return static_cast<void>(dynamic_update_slice(x, none, {0, 0})); }},
      {"dynamic_update_slice",
       [&] { return static_cast<void>(dynamic_update_slice(x, v, {0, 0})); }},
      {"dynamic_update_slice", [&] { return static_cast<void>(dynamic_update_slice(x, x, {0})); }},
      {"scatter", [&] { return static_cast<void>(scatter(none, {i}, x)); }},
      {"scatter", [&] { return static_cast<void>(scatter(x, {none}, x)); }},
      {"scatter", [&] { return static_cast<void>(scatter(x, {i}, none)); }},
      {"scatter", [&] { return static_cast<void>(scatter(x, {}, x)); }},
      {"sort", [&] { return static_cast<void>(sort(none)); }},
      {"sort", [&] { return static_cast<void>(sort(x, 9)); }},
      {"sort", [&] { return static_cast<void>(sort(s)); }},
      {"sort", [&] { return static_cast<void>(sort(std::vector<Node>{})); }},
      {"argsort", [&] { return static_cast<void>(argsort(none)); }},
      {"argsort", [&] { return static_cast<void>(argsort(x, 9)); }},
      {"argsort", [&] { return static_cast<void>(argsort(s)); }},
      {"top_k", [&] { return static_cast<void>(top_k(none, 1)); }},
      {"top_k", [&] { return static_cast<void>(top_k(x, 7)); }},
      {"top_k", [&] { return static_cast<void>(top_k(x, -1)); }},
      {"top_k", [&] { return static_cast<void>(top_k(x, 1, 9)); }},
      {"searchsorted", [&] { return static_cast<void>(searchsorted(none, v)); }},
      {"searchsorted", [&] { return static_cast<void>(searchsorted(x, v)); }},
      {"searchsorted", [&] { return static_cast<void>(searchsorted(v, y)); }},
  });
}

// F2, G16
TEST_F(CalledTest, Layers) {
  expect_refused({
      {"softmax", [&] { return static_cast<void>(softmax(none)); }},
      {"softmax", [&] { return static_cast<void>(softmax(x, 9)); }},
      {"softmax", [&] { return static_cast<void>(softmax(s)); }},
      {"softmax", [&] { return static_cast<void>(softmax(e)); }},
      {"log_softmax", [&] { return static_cast<void>(log_softmax(none)); }},
      {"log_softmax", [&] { return static_cast<void>(log_softmax(x, 9)); }},
      {"log_softmax", [&] { return static_cast<void>(log_softmax(s)); }},
      {"log_softmax", [&] { return static_cast<void>(log_softmax(e)); }},
      {"layer_norm", [&] { return static_cast<void>(layer_norm(none, v, v)); }},
      {"layer_norm", [&] { return static_cast<void>(layer_norm(x, none, v)); }},
      {"layer_norm", [&] { return static_cast<void>(layer_norm(x, v, v)); }},
      {"layer_norm", [&] { return static_cast<void>(layer_norm(x, y, y)); }},
      {"rms_norm", [&] { return static_cast<void>(rms_norm(none, v)); }},
      {"rms_norm", [&] { return static_cast<void>(rms_norm(x, none)); }},
      {"rms_norm", [&] { return static_cast<void>(rms_norm(x, v)); }},
      {"rms_norm", [&] { return static_cast<void>(rms_norm(x, y)); }},
      {"gelu", [&] { return static_cast<void>(gelu(none)); }},
      {"silu", [&] { return static_cast<void>(silu(none)); }},
      {"sigmoid", [&] { return static_cast<void>(sigmoid(none)); }},
      {"one_hot", [&] { return static_cast<void>(one_hot(none, 3)); }},
      {"one_hot", [&] { return static_cast<void>(one_hot(x, 3)); }},
      {"one_hot", [&] { return static_cast<void>(one_hot(i, -3)); }},
      {"cross_entropy", [&] { return static_cast<void>(cross_entropy(none, i)); }},
      {"cross_entropy", [&] { return static_cast<void>(cross_entropy(x, none)); }},
      {"cross_entropy", [&] { return static_cast<void>(cross_entropy(x, i)); }},
      {"cross_entropy", [&] { return static_cast<void>(cross_entropy(x, x)); }},
      {"attention", [&] { return static_cast<void>(attention(none, x, x)); }},
      {"attention", [&] { return static_cast<void>(attention(x, none, x)); }},
      {"attention", [&] { return static_cast<void>(attention(x, x, none)); }},
      {"attention", [&] { return static_cast<void>(attention(x, v, x)); }},
      {"attention", [&] { return static_cast<void>(attention(x, x, x, {}, other_mask)); }},
      {"attention", [&] { return static_cast<void>(attention(big, many, many)); }},
      {"attention", [&] { return static_cast<void>(attention(x, x, x, {}, masks)); }},
  });
}

// F2, G16
TEST_F(CalledTest, RandomNumbers) {
  expect_refused({
      {"split_key", [&] { return static_cast<void>(split_key(none, 2)); }},
      {"split_key", [&] { return static_cast<void>(split_key(x, 2)); }},
      {"split_key", [&] { return static_cast<void>(split_key(key, -2)); }},
      {"fold_in", [&] { return static_cast<void>(fold_in(none, 2)); }},
      {"fold_in", [&] { return static_cast<void>(fold_in(x, 2)); }},
      {"fold_in", [&] { return static_cast<void>(fold_in(key, 1.5)); }},
      {"fold_in", [&] { return static_cast<void>(fold_in(key, x)); }},
      {"random_bits", [&] { return static_cast<void>(random_bits(none, {2})); }},
      {"random_bits", [&] { return static_cast<void>(random_bits(x, {2})); }},
      {"random_bits", [&] { return static_cast<void>(random_bits(key, {-2})); }},
      {"random_uniform", [&] { return static_cast<void>(random_uniform(none, {2})); }},
      {"random_uniform", [&] { return static_cast<void>(random_uniform(x, {2})); }},
      {"random_uniform", [&] { return static_cast<void>(random_uniform(key, {-2})); }},
      {"random_normal", [&] { return static_cast<void>(random_normal(none, {2})); }},
      {"random_normal", [&] { return static_cast<void>(random_normal(x, {2})); }},
      {"random_normal", [&] { return static_cast<void>(random_normal(key, {-2})); }},
      {"bernoulli", [&] { return static_cast<void>(bernoulli(none, .5, {2})); }},
      {"bernoulli", [&] { return static_cast<void>(bernoulli(x, .5, {2})); }},
      {"bernoulli", [&] { return static_cast<void>(bernoulli(key, v, {2})); }},
      {"bernoulli", [&] { return static_cast<void>(bernoulli(key, none, {2})); }},
      {"bernoulli", [&] { return static_cast<void>(bernoulli(key, hk, {2})); }},
      {"categorical", [&] { return static_cast<void>(categorical(none, x)); }},
      {"categorical", [&] { return static_cast<void>(categorical(key, none)); }},
      {"categorical", [&] { return static_cast<void>(categorical(x, x)); }},
      {"categorical", [&] { return static_cast<void>(categorical(key, s)); }},
      {"permutation", [&] { return static_cast<void>(permutation(none, 3)); }},
      {"permutation", [&] { return static_cast<void>(permutation(x, 3)); }},
      {"permutation", [&] { return static_cast<void>(permutation(key, -3)); }},
      {"dropout", [&] { return static_cast<void>(dropout(none, key, .5)); }},
      {"dropout", [&] { return static_cast<void>(dropout(x, none, .5)); }},
      {"dropout", [&] { return static_cast<void>(dropout(x, x, .5)); }},
      {"dropout", [&] { return static_cast<void>(dropout(x, key, 1)); }},
      {"bernoulli", [&] { return static_cast<void>(bernoulli(key, x, {6})); }},
  });
}

// F2, G16
TEST_F(CalledTest, ElementwiseOperations) {
  expect_refused({
      {"select", [&] { return static_cast<void>(select(b, x, v)); }},
      {"select", [&] { return static_cast<void>(select(none, x, x)); }},
      {"select", [&] { return static_cast<void>(select(b, x, y)); }},
      {"clamp", [&] { return static_cast<void>(clamp(x, v, v)); }},
      {"clamp", [&] { return static_cast<void>(clamp(none, 0, 1)); }},
  });
}

// F2: axes are told as they were given, operands in their order
TEST_F(CalledTest, WhatWasGivenIsTold) {
  EXPECT_THAT(message_of([&] { return g.iota({f32, {2, 3}}, -7); }),
              HasSubstr("'iota': axis -7 is none of f32[2,3] (expected -2 to 1)"));
  EXPECT_THAT(message_of([&] { return broadcast_in_dim(x, {4, 6}, {0, -9}); }),
              HasSubstr("axis -9 is none of f32[4,6]"));
  EXPECT_THAT(message_of([&] { return x > v; }), StartsWith("'gt' of %0 'x' f32[4,6]"));
  EXPECT_THAT(message_of([&] { return x >= v; }), StartsWith("'ge' of %0 'x' f32[4,6]"));
}

// F1: a finished graph is any thread's, also where it refuses
TEST_F(CalledTest, FinishedGraphsAreForAllThreads) {
  g.finish({sum(x)});
  const auto use = [&] {
    for (int k = 0; k < 200; ++k) {
      EXPECT_EQ(reshape(x, {4, 6}).to_string(), x.to_string());
      EXPECT_THROW(static_cast<void>(sum(x, {9})), Error);
      EXPECT_THROW(static_cast<void>((void(g.scope("late")), g.parameter("p", {f32, {}}))), Error);
    }
  };
  std::thread other(use);
  use();
  other.join();
}

// F2: what an operation is made of comes second, with what it was given
TEST_F(CalledTest, OperationsInsideComeSecond) {
  EXPECT_THAT(message_of([&] { return attention(x, x, more); }),
              AllOf(StartsWith("'attention' of %0 'x' f32[4,6]"),
                    HasSubstr(" and %17 'more' f32[5,6]"), HasSubstr(": 'matmul' of"),
                    HasSubstr("the last axis of the first has 4 elements, axis 0 of the other has "
                              "5 (expected as many)")));
  // One that is over is no more named.
  EXPECT_THAT(message_of([&] { return sum(x, {9}); }), StartsWith("'sum' of %0 'x' f32[4,6]"));
  EXPECT_THAT(message_of([&] { return argmax(e); }), HasSubstr("'argmax' of %6 'e' f32[0]"))
      << "not the reduction it is made of";
}

}  // namespace
}  // namespace heddle::jit::testing
