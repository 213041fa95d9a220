// Tensors: identity, sizes, memory modes and their refinement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <unordered_set>

#include "heddle/program.hpp"
#include "heddle/status.hpp"
#include "jit/describe/tensor.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using testing::HasSubstr;
using enum MemoryMode;

// D3
TEST(TensorTest, RefusesImpossibleSizesByName) {
  const Status negative = failure([] { Tensor("weights", f32, {3, -1}); });
  EXPECT_EQ(negative.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(std::string(negative.message()), HasSubstr("weights"));
  EXPECT_THAT(std::string(negative.message()), HasSubstr("-1"));
  const Status huge =
      failure([] { Tensor("weights", f64, {std::int64_t{1} << 40, std::int64_t{1} << 40}); });
  EXPECT_EQ(huge.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(std::string(huge.message()), HasSubstr("63 bits"));
}

// J2: handles share identity, equal labels do not
TEST(TensorTest, IsAHandleComparedByIdentity) {
  const Tensor a("x", f32, {2});
  const Tensor b("x", f32, {2});
  const Tensor copy = a;
  EXPECT_TRUE(a == copy);
  EXPECT_FALSE(a == b);
  EXPECT_EQ((std::unordered_set<Tensor>{a, b, copy}.size()), 2u);
}

// J4: the whole refinement table, row by row
TEST(MemoryModeTest, RefinesByTheTable) {
  using jit::try_refine;
  const MemoryMode all[] = {effectively_constant, virtual_,
                            never_virtual,        local,
                            device_only,          on_device,
                            materialized,         hosted_constant,
                            hosted_nonconstant,   hosted_changed_on_devices,
                            hosted_volatile};
  for (const MemoryMode m : all) {
    EXPECT_EQ(try_refine(unset, m), m);
    EXPECT_EQ(try_refine(m, unset), m);
    EXPECT_EQ(try_refine(m, m), m);
  }
  const auto both = [](MemoryMode a, MemoryMode b, std::optional<MemoryMode> result) {
    EXPECT_EQ(try_refine(a, b), result) << name(a) << " then " << name(b);
    EXPECT_EQ(try_refine(b, a), result) << name(b) << " then " << name(a);
  };
  both(never_virtual, virtual_, std::nullopt);
  both(never_virtual, effectively_constant, hosted_constant);
  both(materialized, effectively_constant, hosted_constant);
  both(hosted_constant, effectively_constant, hosted_constant);
  both(effectively_constant, virtual_, virtual_);
  both(device_only, materialized, on_device);
  both(hosted_nonconstant, hosted_changed_on_devices, hosted_changed_on_devices);
  both(hosted_nonconstant, hosted_volatile, hosted_volatile);
  both(hosted_changed_on_devices, hosted_volatile, std::nullopt);
  both(hosted_constant, hosted_nonconstant, std::nullopt);
  for (const MemoryMode m : {local, device_only, on_device, materialized, hosted_constant,
                             hosted_nonconstant, hosted_volatile}) {
    both(never_virtual, m, m);
  }
  both(device_only, local, local);
  both(device_only, on_device, on_device);
  both(materialized, on_device, on_device);
  both(materialized, hosted_volatile, hosted_volatile);
  both(local, on_device, std::nullopt);
  both(local, materialized, std::nullopt);
  both(virtual_, on_device, std::nullopt);
  both(device_only, hosted_constant, std::nullopt);
}

// J4: a clash names tensor, both modes and both places, and changes nothing
TEST(MemoryModeTest, ClashNamesBothProvenances) {
  const Tensor t("hidden", f32, {4});
  t.set_mode(virtual_);
  const std::string first = t.mode_provenance();
  const Status clash = failure([&] { t.set_mode(on_device); });
  EXPECT_EQ(clash.code(), ErrorCode::invalid_argument);
  const std::string text(clash.message());
  EXPECT_THAT(text, HasSubstr("hidden"));
  EXPECT_THAT(text, HasSubstr("virtual"));
  EXPECT_THAT(text, HasSubstr("on_device"));
  EXPECT_THAT(text, HasSubstr(first));
  EXPECT_THAT(first, HasSubstr("tensor_test.cpp:"));
  EXPECT_EQ(t.mode(), virtual_);
  EXPECT_EQ(t.mode_provenance(), first);
}

// J4
TEST(MemoryModeTest, HostedNeedsHostStorageOfTheSameType) {
  const Tensor t("x", f32, {4});
  EXPECT_EQ(failure([&] { t.set_mode(hosted_volatile); }).code(), ErrorCode::invalid_argument);
  const Status wrong = failure([&] { t.set_host(HostArray(ArrayType{f64, {4}})); });
  EXPECT_EQ(wrong.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("f64[4]"));
  EXPECT_FALSE(t.host().has_value());
  t.set_host(HostArray(ArrayType{f32, {4}}), hosted_constant);
  EXPECT_EQ(t.mode(), hosted_constant);
  EXPECT_TRUE(t.host().has_value());
}

// J4, S2: modes are guarded, whoever asks
TEST(MemoryModeTest, ThreadsRefineOneTensorWithoutTearing) {
  const Tensor t("shared", f32, {4});
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&t, k] {
      for (int n = 0; n < 200; ++n) {
        t.set_mode(k % 2 == 0 ? never_virtual : device_only);
        EXPECT_NE(name(t.mode()), "unknown");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(t.mode(), device_only);
}

}  // namespace
}  // namespace heddle
