// Every numeric limit of the server in one place, with what it holds off. Rows: docs/faults.md.
//
// (flag) marks the default of a flag, which an operator may turn within the bounds that
// server/lifecycle/limit_flags.cc gives. The others are constants for one of these reasons:
//   - what a caller names or frames. No honest caller comes near them, so turning them up only
//     gives more to others: names, ranks, counts of inputs, fields, chunks, parts, credentials.
//   - what keeps a promise of SECURITY.md that is made without looking at flags: what is not
//     counted in --request-memory, what health and metrics may take, how long a stop takes.
//   - what is the model's to say (model.textproto), and is only bounded here: batches, queues,
//     delays, levels, instances, labels.
//   - what a file format or protobuf sets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fovea::limits {

inline constexpr int64_t kKiB = 1 << 10;
inline constexpr int64_t kMiB = 1 << 20;

// Requests.
inline constexpr int64_t kMaxMessageBytes = 256 * kMiB;  // of one message or body (row 4; flag)
// Pieces in which a message may come: so many, and one more for each KiB of it. Each costs memory
// of its own, and a sender may make them of a byte (row 37).
inline constexpr size_t kMaxSmallPieces = 4096;
inline constexpr int kMaxMetadataBytes = 16 * kKiB;  // of one call's headers (row 3)
inline constexpr int kMaxTensorRank = 8;             // (row 9)
inline constexpr int kMaxInputsPerRequest = 64;
// Of a request whose images keep their shape: each takes a place in the queue.
inline constexpr int kMaxPicturesPerRequest = 64;
inline constexpr int kMaxParametersPerRequest = 64;
inline constexpr size_t kMaxRequestIdBytes = 1024;
inline constexpr size_t kMaxModelNameBytes = 128;    // (row 25)
inline constexpr int64_t kMaxTimeoutSeconds = 3600;  // longer deadlines are clamped (row 36)
inline constexpr int kMaxConcurrentStreams = 1024;   // of one connection (flag)
// File descriptors that connections and regions of shared memory leave for everything else, or half
// of them where there are few (rows 38, 52).
inline constexpr int kReservedFiles = 128;
// Of an answer's message: protobuf neither writes nor reads 2 GiB. What is left below them is for
// the receipt, and for what a stream puts around an answer (row 66).
inline constexpr size_t kMaxAnswerBytes = (size_t{1} << 31) - 64 * kKiB;
inline constexpr int kStreamWindowBytes = 4 * kMiB;                 // that a stream may send ahead
inline constexpr int64_t kMaxDecompressedMessageBytes = 64 * kMiB;  // (row 5)
// Of a request beside its tensors (row 6).
inline constexpr size_t kMaxRequestHeaderBytes = 256 * kKiB;
inline constexpr int64_t kMaxBytesElements = 65'536;  // of a BYTES tensor (row 6)
// Of a request's typed contents, which are read number by number on the thread that received them.
inline constexpr int64_t kMaxConvertedElements = 4 * kMiB;  // integers
inline constexpr int64_t kMaxContentsFields = 65'536;
// That a request is counted with before anything of it is read: its call's and its own records.
inline constexpr int64_t kRequestRecordBytes = 8 * kKiB;
// Of the weights that come with one load, together. They are in memory three times while they are
// written down and read: as the message, as files, as the model. Larger ones belong into the
// repository's folder.
inline constexpr int64_t kMaxSentFileBytes = 256 * kMiB;
inline constexpr size_t kMaxSentFiles = 16;  // versions: each holds a file descriptor meanwhile
// Of a load's request beside such files, with a model's configuration.
inline constexpr int64_t kMaxLoadTextBytes = 128 * kKiB;
// Of the whole, whose files may be base64.
inline constexpr int64_t kMaxLoadMessageBytes = kMaxSentFileBytes / 3 * 4 + kMaxLoadTextBytes;
// Of every other request without tensors: a name and little else (row 37).
inline constexpr int64_t kMaxControlMessageBytes = 4 * kKiB;
// Of one ModelStreamInfer or StreamImages: requests that have been taken and whose answers have not
// left (flag). Raise it where one stream alone is to fill large batches.
inline constexpr int kMaxStreamRequestsInFlight = 64;
// A stream that holds one in so many of the bytes for requests takes no more until answers have
// left (rows 37, 65): its messages, what its requests under way may take (decoded pictures,
// outputs, masks), its answers. Raise it where many callers read slowly or send large pictures;
// lower it where one stream of such pictures alone is to fill batches.
inline constexpr int kStreamMemoryShare = 8;
// Shared memory that callers have registered (row 52): regions at a time (flag), each of which
// keeps a file descriptor open, and bytes of a name or a key.
inline constexpr size_t kMaxSharedMemoryRegions = 256;
inline constexpr size_t kMaxSharedMemoryNameBytes = 254;
// Of an answer that is not counted, so that health is told when all memory is in use.
inline constexpr int64_t kUncountedAnswerBytes = 512;
// Open at a time, of all callers and of one connection (rows 38, 99).
inline constexpr int kMaxHealthWatches = 4096;
inline constexpr int kMaxHealthWatchesPerConnection = 64;
inline constexpr int kMaxReflectionStreams = 256;
inline constexpr int kMaxReflectionStreamsPerConnection = 16;

// Experiments. A tenth of the device's time beside models that always have work (flag), and what
// the models of one may hold (flag).
inline constexpr int64_t kExperimentWeight = 10;
inline constexpr int64_t kExperimentMemoryMb = 4096;
inline constexpr size_t kMaxWaitingComparisons = 4;  // and sweeps, for the one that runs
// Of a pass of what is compared or swept, while models wait (rows 84, 88).
inline constexpr int64_t kMaxExperimentPassSeconds = 5;
// Of one comparison.
inline constexpr int64_t kMaxComparedVariants = 8;
inline constexpr int64_t kMaxComparedImages = 64;
inline constexpr int64_t kMaxComparedRounds = 10'000;
inline constexpr int64_t kMaxComparedBatch = 64;
inline constexpr int64_t kMaxComparisonSeconds = 3600;
// Of one sweep: values, points (values of all curves), rounds; pixels of a resolution's side and of
// a batch; seconds that a point may take to load.
inline constexpr int64_t kMaxSweptValues = 32;
inline constexpr int64_t kMaxSweptPoints = 64;
inline constexpr int64_t kMaxSweptRounds = 1000;
inline constexpr int kMaxSweptSide = 2048;
inline constexpr int64_t kMaxSweptPixels = 16 * 1024 * 1024;
inline constexpr int64_t kMaxSweptLoadSeconds = 60;
inline constexpr size_t kMaxSweptValueBytes = 64;  // of a value's text
// Variants that are served for a while (row 92): at a time, of all calls; calls that have some
// served, and that wait for another's to be loaded; how long one has them.
inline constexpr size_t kMaxServedVariants = 8;
inline constexpr size_t kMaxServeCalls = 16;
inline constexpr size_t kMaxWaitingServes = 4;
inline constexpr int64_t kMaxServeSeconds = 24 * 3600;
inline constexpr int64_t kMaxVariantLoadSeconds = 300;       // others wait meanwhile
inline constexpr int64_t kMaxServeMessageBytes = 16 * kKiB;  // that names them
// Of explanations: that wait for the one that runs; of one, pixels of all pictures together.
inline constexpr size_t kMaxWaitingExplanations = 8;
inline constexpr int64_t kMaxExplainedMaps = 256;
inline constexpr int64_t kMaxExplainedPixels = 64 * 1024 * 1024;
// Of live comparisons (rows 89, 90): that run at a time; of those that have ended, the oldest is
// forgotten beyond so many; starts that wait for the one that loads.
inline constexpr size_t kMaxLiveExperiments = 8;
inline constexpr size_t kMaxEndedLiveExperiments = 32;
inline constexpr size_t kMaxWaitingLiveExperiments = 4;
// Of one: arms, each of which is a few series of metrics; its name; its plan as a message.
inline constexpr size_t kMaxExperimentArms = 8;
inline constexpr size_t kMaxExperimentNameBytes = 64;
inline constexpr int64_t kMaxExperimentPlanBytes = 16 * kKiB;
inline constexpr int64_t kMaxExperimentSeconds = int64_t{30} * 24 * 3600;
// Of what a caller gives to be sent to one arm always.
inline constexpr size_t kMaxExperimentKeyBytes = 256;
// Requests whose input is kept for a copy, of all experiments together.
inline constexpr int kMaxShadowCopies = 4;

// Connections and the server's end.
inline constexpr int kHandshakeSeconds = 10;  // in which a connection is set up (row 38; flag)
// Over gRPC, milliseconds, all of them flags. Our pings find callers that are gone without a word,
// so that their requests are cancelled.
inline constexpr int64_t kGrpcKeepaliveTimeMs = 60'000;     // between two pings of ours
inline constexpr int64_t kGrpcKeepaliveTimeoutMs = 20'000;  // in which one is answered
// Between two pings of a caller, and how many that come sooner are let pass (row 38).
inline constexpr int64_t kGrpcMinPingIntervalMs = 10'000;
inline constexpr int64_t kGrpcMaxPingStrikes = 2;
inline constexpr int64_t kGrpcMaxConnectionIdleMs = 900'000;     // without a call
inline constexpr int64_t kGrpcMaxConnectionAgeGraceMs = 30'000;  // of the calls of one that is old
// That a draining server waits for callers to read answers that are there (row 37).
inline constexpr int64_t kUnreadAnswerSeconds = 5;
// A drain ends once no inference request has come for this long: messages that were on their way
// have arrived.
inline constexpr int64_t kQuietMs = 100;
// The longest that it waits for that.
inline constexpr int64_t kMaxQuietWaitMs = 500;
// In which requests that are given up at the drain's end are still answered.
inline constexpr int64_t kGiveUpSeconds = 4;

// The log (row 96): lines that wait to be written, beyond which the oldest are dropped; how long an
// orderly exit waits for them, and one that comes whatever hangs.
inline constexpr int kMaxQueuedLogLines = 4096;
inline constexpr int64_t kLogFlushMs = 1000;
inline constexpr int64_t kHastyLogFlushMs = 100;

// Files that the operator names: certificates and API keys.
inline constexpr size_t kMaxSecretFileBytes = 1 << 20;
// Between two looks at them. A change is taken when two looks found it.
inline constexpr int64_t kSecretFilesSeconds = 1;

// API keys.
inline constexpr size_t kMaxApiKeys = 256;  // each is a few series of metrics (row 47)
inline constexpr size_t kMaxApiKeyNameBytes = 64;
inline constexpr size_t kMaxCredentialBytes = 512;  // of what a caller shows (row 48)
inline constexpr int64_t kMaxKeyRate = 1'000'000;   // requests a second
inline constexpr int64_t kMaxKeyConcurrency = 1'000'000;

// Traces.
inline constexpr size_t kMaxTraceStateBytes = 512;  // of `tracestate`; longer ones are left out
inline constexpr size_t kMaxTracedModels = 1024;    // with trace settings of their own
inline constexpr size_t kMaxWaitingSpans = 8192;    // for the collector; more are dropped (row 81)
inline constexpr size_t kMaxSpanBatch = 512;
// Of spans that a caller asks for, by the requests of one second.
inline constexpr int64_t kForcedTracesPerSecond = 100;
inline constexpr int64_t kSpanExportSeconds = 10;
inline constexpr int kSpanExportAttempts = 5;
// In which a server that ends sends the spans that wait.
inline constexpr int64_t kSpanFlushSeconds = 3;

// HTTP.
inline constexpr int kHttpThreads = 4;  // that frame requests, and answer what is quick (flag)
// That read bodies which take long and compress answers: health does not wait for these.
inline constexpr int kHttpSlowThreads = 2;
// A body of so many bytes, or one that is compressed, is read by those.
inline constexpr int64_t kSlowHttpBodyBytes = 256 * kKiB;
inline constexpr int64_t kLeastCompressedAnswerBytes = 1 * kKiB;  // shorter ones leave as they are
inline constexpr int kMaxHttpConnections = 1024;                  // open at a time (row 38; flag)
inline constexpr int kMaxMetricsConnections = 64;                 // the same of the metrics' port
inline constexpr size_t kMaxHttpHeadBytes = 16 * kKiB;            // request line and fields (row 3)
inline constexpr size_t kMaxHttpTargetBytes = 8 * kKiB;
inline constexpr int64_t kMaxHttpFields = 100;  // of a head: each takes memory of its own
inline constexpr size_t kMaxHttpPathParts = 16;
inline constexpr size_t kMaxHttpQueryPairs = 128;
inline constexpr int64_t kMaxHttpChunks = 65'536;  // of a body (row 50)
// Read ahead of what is looked at, of a body in chunks. Each connection may hold so much uncounted,
// and a head.
inline constexpr size_t kHttpReadAheadBytes = 16 * kKiB;
// Of a request in JSON: tensors that are longer come as bytes.
inline constexpr int64_t kMaxJsonBytes = 16 * kMiB;
inline constexpr size_t kMaxJsonNameBytes = 4 * kKiB;  // of a tensor, a type, an id
inline constexpr size_t kMaxFormParts = 1024;          // of a multipart body
inline constexpr size_t kMaxFormHeadBytes = 4 * kKiB;  // of one part
inline constexpr int64_t kHttpIdleSeconds = 75;        // without a request (flag)
inline constexpr int64_t kHttpHeadSeconds = 10;        // (row 37; flag)
// Each so many seconds (flag) of a body or an answer have to bring their share at this speed.
inline constexpr int64_t kHttpTransferSeconds = 20;
inline constexpr int64_t kLeastHttpBytesPerSecond = 128 * kKiB;
inline constexpr int64_t kHttpLingerSeconds = 2;           // that an error is left to be read
inline constexpr int64_t kMaxMetricsBodyBytes = 1 * kKiB;  // a scrape has none
inline constexpr int64_t kMetricsPortBytes = 64 * kMiB;  // of answers to scrapes that are under way

// Images.
inline constexpr int64_t kMaxEncodedImageBytes = 32 * kMiB;  // (row 13; flag)
// In the header, before decoding (row 14; flag).
inline constexpr int64_t kMaxImagePixels = 100'000'000;
inline constexpr int kMaxImageSide = 32'767;
inline constexpr int kMaxAspectRatio = 1000;  // longer over shorter side (row 24)
inline constexpr int kMaxJpegScans = 100;     // progressive bombs (row 16)
// Scans * pixels: time to decode (row 16).
inline constexpr int64_t kMaxJpegScanPixels = 1'000'000'000;
// Text, colour and EXIF chunks (row 15).
inline constexpr int64_t kMaxImageMetadataBytes = 8 * kMiB;
inline constexpr int kMaxImagingThreads = 1024;
inline constexpr int kMaxImagingQueue = 1024;  // images that wait to be decoded (flag)

// The model repository.
// Models that load at the same time: reading and packing weights keeps about a processor busy.
inline constexpr int kMaxLoaderThreads = 4;
inline constexpr int64_t kMaxModelSpecBytes = 1 * kMiB;             // (row 30)
inline constexpr int64_t kMaxConfigOverrideBytes = 64 * kKiB;       // kept with each version
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // (row 27)
inline constexpr int64_t kMaxLabelsBytes = 16 * kMiB;
inline constexpr size_t kMaxProblemsOfAFile = 100;  // that are told of one reading
inline constexpr int kMaxBatchSize = 1024;
inline constexpr int kMaxQueueSize = 100'000;
inline constexpr int64_t kMaxQueueDelayMicroseconds = 10'000'000;
inline constexpr int kMaxPriorityLevels = 32;  // each has series of metrics
inline constexpr int kMaxRateLimiterPriority =
    1000;  // a model's share is at least a thousandth of another's
inline constexpr int kMaxInstances = 64;
// On a GPU side by side: one is copied while the other is computed.
inline constexpr int kBatchesPerGpu = 2;
inline constexpr int kMaxThreadsPerInstance = 1024;
inline constexpr int kMaxGpus = 64;  // of one machine
inline constexpr int64_t kMaxClasses = 1'000'000;
inline constexpr int64_t kMaxDetections = 1000;  // of an image
inline constexpr int kMaxVersions = 1000;        // that a version_policy names
inline constexpr int kMaxVersionLabels = 64;     // of a model
inline constexpr int kMaxAttentionTexts = 16;    // one a stage
inline constexpr size_t kMaxAttentionTextBytes = 256;
inline constexpr size_t kMaxLabelBytes = 1024;
// Of a canary's picture or tensor, and of the output that it expects.
inline constexpr int64_t kMaxCanaryFileBytes = 64 * kMiB;
inline constexpr int64_t kMaxCanarySeconds = 120;  // that its answer is waited for
// Calls of the repository (row 33): threads that wait for loads, and as many for unloads; calls of
// either that are under way or wait for these; listings that wait for the one thread they have.
inline constexpr int kRepositoryCallThreads = 4;
inline constexpr int kMaxPendingLoads = 64;
inline constexpr int kMaxPendingIndexes = 64;
// The longest that a load waits for memory while none of those that hold it gives any back: one may
// hang.
inline constexpr int64_t kMaxLoadWaitSeconds = 600;
inline constexpr int64_t kMaxInputSide = 4096;  // of a model's own input

}  // namespace fovea::limits
