// EngineFront: requests whose blocks lie in a server's tensors on a GPU.
#include "engine/engine_front.h"

namespace kvferry::engine {

Status EngineFront::CheckDevice() const {
  if (device_ != nullptr) {
    return Status::Ok();
  }
  if (options_.hbm.mode == HbmMode::kOff) {
    return Status::Error(StatusCode::kInvalidArgument,
                         "the engine was opened without a GPU; set hbm.mode to \"attached\"");
  }
  return Status::Error(StatusCode::kUnavailable, device_status_.ToString());
}

Result<TensorsHandle> EngineFront::RegisterTensors(const DeviceTensors& tensors) {
  KVFERRY_RETURN_IF_ERROR(CheckDevice());
  return device_->Register(tensors);
}

Status EngineFront::UnregisterTensors(TensorsHandle tensors) {
  KVFERRY_RETURN_IF_ERROR(CheckDevice());
  return device_->Unregister(tensors);
}

Status EngineFront::WaitLayer(Ticket ticket, std::uint32_t layer, NativeStream stream) {
  KVFERRY_RETURN_IF_ERROR(CheckDevice());
  return device_->WaitLayer(ticket, layer, stream);
}

Result<Ticket> EngineFront::PutFromDevice(const DevicePutRequest& request, CompletionQueue& queue) {
  KVFERRY_RETURN_IF_ERROR(CheckDevice());
  KVFERRY_ASSIGN_OR_RETURN(Call call,
                           CallOf(Call::Kind::kPut, request.in, request.keys, request.options));
  call.has_parent = request.parent != nullptr;
  call.parent = call.has_parent ? *request.parent : BlockKey{};
  DeviceArrows::Wish wish;
  wish.tensors = request.tensors;
  wish.blocks = request.blocks;
  wish.stream = request.producer;
  wish.needs_stream = true;
  return SubmitToDevice(call, wish, queue);
}

Result<Ticket> EngineFront::GetToDevice(const DeviceGetRequest& request, CompletionQueue& queue) {
  KVFERRY_RETURN_IF_ERROR(CheckDevice());
  KVFERRY_ASSIGN_OR_RETURN(const Call call,
                           CallOf(Call::Kind::kGet, request.in, request.keys, request.options));
  DeviceArrows::Wish wish;
  wish.tensors = request.tensors;
  wish.blocks = request.blocks;
  wish.stream = request.last_user;
  return SubmitToDevice(call, wish, queue);
}

Result<Ticket> EngineFront::SubmitToDevice(Call call,
                                           const DeviceArrows::Wish& wish,
                                           CompletionQueue& queue) {
  if (wish.blocks.size() != call.keys.size()) {
    return Status::Error(StatusCode::kInvalidArgument,
                         std::to_string(wish.blocks.size()) + " blocks for " +
                             std::to_string(call.keys.size()) + " keys; give one for each");
  }
  DeviceArrows::Wish whole = wish;
  whole.block_bytes = call.block_bytes;
  KVFERRY_ASSIGN_OR_RETURN(const DeviceArrows::Admitted admitted, device_->Admit(whole));
  call.is_device = true;
  call.tensors = admitted.tensors;
  call.event = admitted.event;
  call.blocks = wish.blocks;
  Result<Ticket> ticket = Submit(call, queue);
  if (!ticket.ok()) {
    device_->Release(admitted);
  }
  return ticket;
}

}  // namespace kvferry::engine
