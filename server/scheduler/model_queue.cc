#include "server/scheduler/model_queue.h"

#include <utility>

#include "server/scheduler/device.h"

namespace fovea {

void Ticket::NotifyCancelled() const {
  if (device_ != nullptr) device_->NotifyCancelled(queue_, task_);
}

Reservation::Reservation(Reservation&& other) noexcept
    : ticket_(std::exchange(other.ticket_, Ticket())) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    ticket_ = std::exchange(other.ticket_, Ticket());
  }
  return *this;
}

Reservation::~Reservation() { Release(); }

void Reservation::Release() {
  if (ticket_.device_ != nullptr) ticket_.device_->Release(ticket_.queue_, ticket_.task_);
  ticket_ = Ticket();
}

ModelQueue::~ModelQueue() {
  device_->RemoveQueue(id_, device_->clock().Now() + drain_timeout_us_ * kMicrosecond);
}

absl::StatusOr<Reservation> ModelQueue::Reserve(const TaskOutline& outline) {
  return device_->Reserve(id_, outline);
}

void ModelQueue::Enqueue(Reservation reservation, std::unique_ptr<Task> task) {
  const std::shared_ptr<Device> device = reservation.ticket_.device_;
  device->Enqueue(std::move(reservation), std::move(task));
}

void ModelQueue::RecordLatency(const BatchSize& batch, Nanos duration) {
  device_->RecordLatency(id_, batch, duration);
}

Nanos ModelQueue::LeastRunTime(const BatchSize& batch) const {
  return device_->LeastRunTime(id_, batch);
}

absl::Status ModelQueue::Drain(Nanos until) { return device_->Drain(id_, until); }

ModelQueue::Depth ModelQueue::depth() const { return device_->depth(id_); }

bool ModelQueue::OthersWait() const { return device_->OthersWait(id_); }

}  // namespace fovea
