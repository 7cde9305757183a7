#include "server/transport/grpc/reflection_answer.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/support/status.h>

#include <set>
#include <string>
#include <vector>

namespace fovea {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

void AddError(grpc::StatusCode code, std::string_view message, ServerReflectionResponse* answer) {
  answer->mutable_error_response()->set_error_code(code);
  answer->mutable_error_response()->set_error_message(std::string(message));
}

// `file` and everything that it imports, each once; or that there is none.
void AddFile(const FileDescriptor* file, ServerReflectionResponse* answer) {
  if (file == nullptr) return AddError(grpc::NOT_FOUND, "no file describes it", answer);
  auto* files = answer->mutable_file_descriptor_response();
  std::set<const FileDescriptor*> seen = {file};
  std::vector<const FileDescriptor*> open = {file};
  while (!open.empty()) {
    const FileDescriptor* next = open.back();
    open.pop_back();
    google::protobuf::FileDescriptorProto described;
    next->CopyTo(&described);
    files->add_file_descriptor_proto(described.SerializeAsString());
    for (int i = 0; i < next->dependency_count(); ++i) {
      if (seen.insert(next->dependency(i)).second) open.push_back(next->dependency(i));
    }
  }
}

}  // namespace

ServerReflectionResponse AnswerReflection(const ServerReflectionRequest& question,
                                          std::span<const std::string_view> services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse answer;
  answer.set_valid_host(question.host());
  *answer.mutable_original_request() = question;
  switch (question.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      AddFile(pool.FindFileByName(question.file_by_filename()), &answer);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AddFile(pool.FindFileContainingSymbol(question.file_containing_symbol()), &answer);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& extension = question.file_containing_extension();
      const Descriptor* type = pool.FindMessageTypeByName(extension.containing_type());
      const FieldDescriptor* field =
          type == nullptr ? nullptr
                          : pool.FindExtensionByNumber(type, extension.extension_number());
      AddFile(field == nullptr ? nullptr : field->file(), &answer);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& name = question.all_extension_numbers_of_type();
      const Descriptor* type = pool.FindMessageTypeByName(name);
      if (type == nullptr) {
        AddError(grpc::NOT_FOUND, "no message is called so", &answer);
        break;
      }
      std::vector<const FieldDescriptor*> extensions;
      pool.FindAllExtensions(type, &extensions);
      auto* numbers = answer.mutable_all_extension_numbers_response();
      numbers->set_base_type_name(name);
      for (const FieldDescriptor* field : extensions)
        numbers->add_extension_number(field->number());
      break;
    }
    case ServerReflectionRequest::kListServices:
      for (const std::string_view service : services) {
        answer.mutable_list_services_response()->add_service()->set_name(std::string(service));
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      AddError(grpc::INVALID_ARGUMENT, "the question asks for nothing", &answer);
      break;
  }
  return answer;
}

}  // namespace fovea
