#include "tests/model_zoo/second_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <sstream>
#include <utility>
#include <vector>

namespace fovea::models {
namespace {

thread_local WatchedDevice* watched = nullptr;

// A device pointer is the host's and this much: no address of a process on any processor that has
// fewer than 54 bits of them, so that who follows it is stopped.
constexpr uintptr_t kApart = uintptr_t{1} << 54;

void* OnDevice(void* host) {
  return host == nullptr ? host
                         : reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(host) + kApart);
}
void* OnHost(const void* device) {
  const auto address = reinterpret_cast<uintptr_t>(device);
  return device == nullptr ? nullptr : reinterpret_cast<void*>(address - kApart);
}

// The same memory, seen from the device, which owns it from now on.
c10::DataPtr Adopted(c10::DataPtr host) {
  void* const pointer = OnDevice(host.get());
  return {pointer, new c10::DataPtr(std::move(host)),
          [](void* context) { delete static_cast<c10::DataPtr*>(context); }, kSecondDevice};
}

class SecondDeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return Adopted(c10::GetAllocator(c10::kCPU)->allocate(bytes));
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(OnHost(to), OnHost(from), bytes);
  }
};

SecondDeviceAllocator& DeviceAllocator() {
  static SecondDeviceAllocator allocator;
  return allocator;
}

bool IsOnDevice(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::kHPU;
}

// Laid out as `like`, in other memory.
at::Tensor Placed(at::Tensor made, const at::Tensor& like) {
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                    like.storage_offset());
  return made;
}

// The arguments of one call as the CPU sees them, and its results as the device does. What shares
// memory on one side shares it on the other.
class HostView {
 public:
  explicit HostView(std::string op) : op_(std::move(op)) {}

  at::Tensor ToHost(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (!IsOnDevice(tensor)) {
      if (tensor.dim() > 0) foreign_ = true;
      return tensor;
    }
    own_ = true;
    const at::Tensor seen =
        Placed(at::detail::make_tensor<c10::TensorImpl>(HostStorage(tensor.storage()),
                                                        c10::DispatchKey::CPU, tensor.dtype()),
               tensor);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      seen.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    arguments_.emplace_back(tensor, seen);
    return seen;
  }

  void CheckOneDevice() const {
    TORCH_CHECK(!own_ || !foreign_, op_, ": tensors of the CPU and of ", kSecondDevice);
  }

  at::Tensor ToDevice(const at::Tensor& result) {
    if (!result.defined()) return result;
    for (const auto& [tensor, seen] : arguments_) {
      if (seen.is_same(result)) return tensor;
    }
    c10::Storage storage = DeviceStorage(result.storage());
    for (const auto& [tensor, seen] : arguments_) {
      // A view is what the tensor is: of one that autograd knows, autograd knows it.
      if (!tensor.storage().is_alias_of(storage)) continue;
      return Placed(
          at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, std::move(storage),
                                                   tensor.key_set(), result.dtype()),
          result);
    }
    return Placed(at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                           c10::DispatchKey::HPU, result.dtype()),
                  result);
  }

  // What the call did to the sizes and the memory of its arguments.
  void Settle() {
    for (auto& [tensor, seen] : arguments_) {
      c10::StorageImpl* const own = tensor.storage().unsafeGetStorageImpl();
      c10::StorageImpl* const host = seen.storage().unsafeGetStorageImpl();
      if (host->data() != OnHost(own->data())) {
        own->set_data_ptr_noswap(Adopted(std::move(host->_mutable_data_ptr_no_checks())));
        own->set_nbytes(host->nbytes());
      }
      if (tensor.sizes() != seen.sizes() || tensor.strides() != seen.strides()) {
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(seen.sizes(), seen.strides(),
                                                            seen.storage_offset());
      }
    }
  }

 private:
  c10::Storage HostStorage(const c10::Storage& device) {
    for (const auto& [known, host] : storages_) {
      if (known.is_alias_of(device)) return host;
    }
    // Borrowed for the call.
    c10::Storage host(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), device.nbytes(),
        c10::DataPtr(OnHost(device.data()), c10::kCPU), c10::GetAllocator(c10::kCPU),
        /*resizable=*/true));
    storages_.emplace_back(device, host);
    return host;
  }

  c10::Storage DeviceStorage(const c10::Storage& host) {
    for (const auto& [device, known] : storages_) {
      if (known.unsafeGetStorageImpl() == host.unsafeGetStorageImpl()) return device;
    }
    c10::StorageImpl* const given = host.unsafeGetStorageImpl();
    c10::Storage device(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), given->nbytes(),
        Adopted(std::move(given->_mutable_data_ptr_no_checks())), &DeviceAllocator(),
        /*resizable=*/true));
    storages_.emplace_back(device, host);
    return device;
  }

  const std::string op_;
  bool own_ = false, foreign_ = false;
  std::vector<std::pair<at::Tensor, at::Tensor>> arguments_;     // on the device, on the CPU
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;  // likewise
};

// `value` with every tensor in it mapped.
template <typename Map>
c10::IValue Mapped(const c10::IValue& value, Map map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorVector()) mapped.push_back(map(tensor));
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      mapped.push_back(tensor ? std::optional(map(*tensor)) : std::nullopt);
    }
    return mapped;
  }
  if (value.isDevice() && value.toDevice().type() == c10::kHPU) return c10::Device(c10::kCPU);
  return value;
}

void NoteWait(const std::string& op) {
  if (watched == nullptr) return;
  watched->waits.insert(op);
  ++watched->waited;
}

// Whether sizes or host values follow from the numbers that such a call is given.
bool Waits(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  if (op.hasTag(at::Tag::data_dependent_output)) return true;
  // Of an index only where it is a mask.
  const std::string& name = op.schema().name();
  if (name.starts_with("aten::index") || name.starts_with("aten::_index_put")) {
    for (const c10::IValue& value : arguments) {
      if (!value.isOptionalTensorList()) continue;
      for (const std::optional<at::Tensor>& index : value.toOptionalTensorVector()) {
        if (index && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte)) {
          return true;
        }
      }
    }
    return false;
  }
  return op.hasTag(at::Tag::dynamic_output_shape);
}

// Every operator that has no kernel below: on the CPU, in the same memory.
void RunOnHost(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string& name = op.schema().name();
  if (name.starts_with("fovea::")) {
    // What is registered for the CPU and for CUDA is one function, which asks where tensors are.
    return op.callBoxedForDispatchKey(c10::DispatchKey::CPU, *stack);
  }
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (Waits(op, arguments)) NoteWait(name);
  HostView view(name);
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& argument = (*stack)[stack->size() - arguments.size() + i];
    argument = Mapped(argument, [&](const at::Tensor& tensor) { return view.ToHost(tensor); });
  }
  view.CheckOneDevice();
  op.callBoxed(*stack);
  view.Settle();
  const size_t results = op.schema().returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); ++i) {
    (*stack)[i] =
        Mapped((*stack)[i], [&](const at::Tensor& tensor) { return view.ToDevice(tensor); });
  }
}

at::Tensor Empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                 std::optional<bool> /*pin_memory*/, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &DeviceAllocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::HPU),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor EmptyStrided(at::IntArrayRef size, at::IntArrayRef stride,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                        std::optional<at::Device> /*device*/, std::optional<bool> /*pin_memory*/) {
  return at::detail::empty_strided_generic(size, stride, &DeviceAllocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::HPU),
                                           c10::dtype_or_default(dtype));
}

// Between the devices, in any direction.
at::Tensor& Copy(at::Tensor& self, const at::Tensor& from, bool /*non_blocking*/) {
  if (!IsOnDevice(self)) NoteWait("a copy to the host");
  if (!IsOnDevice(from) && watched != nullptr) {
    std::ostringstream what;
    what << from.scalar_type() << " " << from.sizes();
    watched->uploads.insert(what.str());
  }
  HostView view("copy_");
  view.ToHost(self).copy_(view.ToHost(from));
  return self;
}

// What LibTorch asks of a backend that it does not know.
at::Tensor Convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  HostView view("convolution");
  const at::Tensor seen = view.ToHost(input), kernel = view.ToHost(weight);
  const std::optional<at::Tensor> shift = bias ? std::optional(view.ToHost(*bias)) : std::nullopt;
  view.CheckOneDevice();
  return view.ToDevice(at::convolution(seen, kernel, shift, stride, padding, dilation, transposed,
                                       output_padding, groups));
}

TORCH_LIBRARY_IMPL(_, HPU, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&RunOnHost>());
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("empty.memory_format", Empty);
  m.impl("empty_strided", EmptyStrided);
  m.impl("copy_", Copy);
  m.impl("convolution_overrideable", Convolution);
}

C10_REGISTER_GUARD_IMPL(HPU, c10::impl::NoOpDeviceGuardImpl<c10::kHPU>);

const bool allocator_is_set = [] {
  c10::SetAllocator(c10::kHPU, &DeviceAllocator());
  return true;
}();

}  // namespace

WatchedDevice::WatchedDevice() {
  TORCH_INTERNAL_ASSERT(watched == nullptr, "one watcher at a time");
  watched = this;
}

WatchedDevice::~WatchedDevice() { watched = nullptr; }

}  // namespace fovea::models
