// The public interface, passed on to the front.
#include "kvferry/engine.h"

#include <new>
#include <utility>

#include "base/log.h"
#include "engine/engine_front.h"

namespace kvferry {
namespace {

// Nothing of ours throws: what a call could not allocate, it reports.
template <class Call>
auto Guarded(const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory();
  }
}

}  // namespace

BlockHandle::BlockHandle(BlockHandle&& other) noexcept
    : front_(std::exchange(other.front_, nullptr)),
      entry_(other.entry_),
      bytes_(std::exchange(other.bytes_, {})) {}

BlockHandle& BlockHandle::operator=(BlockHandle&& other) noexcept {
  if (this != &other) {
    Release();
    front_ = std::exchange(other.front_, nullptr);
    entry_ = other.entry_;
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void BlockHandle::Release() noexcept {
  if (front_ != nullptr) {
    bytes_ = {};
    std::exchange(front_, nullptr)->ReleaseHandle(entry_);  // And with the last one all the rest.
  }
}

Engine::Engine(Token /*token*/, std::shared_ptr<engine::EngineFront> front)
    : front_(std::move(front)) {}

Engine::~Engine() {
  if (const Status closed = front_->Close(); !closed.ok()) {
    LogError("close the engine: " + closed.ToString());
  }
}

Result<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options) {
  return Guarded([&]() -> Result<std::unique_ptr<Engine>> {
    KVFERRY_ASSIGN_OR_RETURN(std::shared_ptr<engine::EngineFront> front,
                             engine::EngineFront::Open(options));
    return std::make_unique<Engine>(Token(), std::move(front));
  });
}

Result<NamespaceHandle> Engine::AddNamespace(const Namespace& description,
                                             const NamespaceOptions& options) {
  return Guarded([&] { return front_->AddNamespace(description, options); });
}

Status Engine::EraseNamespace(NamespaceHandle in) {
  return Guarded([&] { return front_->EraseNamespace(in); });
}

Result<std::unique_ptr<CompletionQueue>> Engine::CreateCompletionQueue(std::uint32_t entries_max) {
  return Guarded([&] { return front_->CreateCompletionQueue(entries_max); });
}

PrefixMatch Engine::Match(NamespaceHandle in, std::span<const BlockKey> keys) const {
  return front_->Match(in, keys);
}

Result<Ticket> Engine::Put(const PutRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->Put(request, queue); });
}

Result<Ticket> Engine::Get(const GetRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->Get(request, queue); });
}

Result<Ticket> Engine::Prefetch(const KeysRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->Name(engine::Call::Kind::kPrefetch, request, queue); });
}

Result<Ticket> Engine::Pin(const KeysRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->Name(engine::Call::Kind::kPin, request, queue); });
}

Result<Ticket> Engine::Persist(const KeysRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->Name(engine::Call::Kind::kPersist, request, queue); });
}

Result<Ticket> Engine::Unpersist(const KeysRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->Name(engine::Call::Kind::kUnpersist, request, queue); });
}

Result<Ticket> Engine::Erase(const KeysRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->Name(engine::Call::Kind::kErase, request, queue); });
}

Result<TensorsHandle> Engine::RegisterTensors(const DeviceTensors& tensors) {
  return Guarded([&] { return front_->RegisterTensors(tensors); });
}

Status Engine::UnregisterTensors(TensorsHandle tensors) {
  return Guarded([&] { return front_->UnregisterTensors(tensors); });
}

Result<Ticket> Engine::PutFromDevice(const DevicePutRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->PutFromDevice(request, queue); });
}

Result<Ticket> Engine::GetToDevice(const DeviceGetRequest& request, CompletionQueue& queue) {
  return Guarded([&] { return front_->GetToDevice(request, queue); });
}

Status Engine::WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream) {
  return Guarded([&] { return front_->WaitLayer(ticket, layer, stream); });
}

Status Engine::Collect(Ticket ticket, std::span<BlockHandle> handles) {
  return Guarded([&] { return front_->Collect(ticket, handles); });
}

void Engine::Discard(Ticket ticket) {
  front_->Discard(ticket);
}

void Engine::Cancel(Ticket ticket) {
  front_->Cancel(ticket);
}

EngineStats Engine::Stats() const {
  return front_->Stats();
}

Status Engine::Close() {
  return front_->Close();
}

}  // namespace kvferry
