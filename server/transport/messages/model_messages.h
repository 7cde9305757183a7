// What the server says of itself and its models, in the protocol's messages.
#pragma once

#include "proto/inference/inference.pb.h"
#include "server/api/server_api.h"
#include "server/core/model_catalog.h"
#include "server/core/model_statistics.h"

namespace fovea {

const char* ModelStateName(ModelState state);  // as the repository's index has it, "READY"
void FillServerMetadata(const ServerMetadata& server, inference::ServerMetadataResponse* response);
void FillMetadata(const ModelView& model, inference::ModelMetadataResponse* response);
void FillConfig(const ModelView& model, inference::ModelConfig* config);
void FillStatistics(const ModelStatistics& statistics, inference::ModelStatistics* message);
void FillRegion(const SharedMemoryRegionInfo& region,
                inference::SystemSharedMemoryStatusResponse::RegionStatus* message);
void FillIndexEntry(const IndexEntry& entry,
                    inference::RepositoryIndexResponse::ModelIndex* message);

}  // namespace fovea
