package runtime

import (
	"cmp"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// missing is the error of an answer without a required field.
func missing(field string) error {
	return fmt.Errorf("%w: %s is missing", ErrMalformed, field)
}

// checkNonEmpty requires value, the field of that name.
func checkNonEmpty(field, value string) error {
	if value == "" {
		return missing(field)
	}
	return nil
}

func checkVersion(v *runtimeapi.VersionResponse) error {
	return cmp.Or(
		checkNonEmpty("version", v.GetVersion()),
		checkNonEmpty("runtime_name", v.GetRuntimeName()),
		checkNonEmpty("runtime_version", v.GetRuntimeVersion()),
		checkNonEmpty("runtime_api_version", v.GetRuntimeApiVersion()),
	)
}

// checkRuntimeStatus requires the two conditions that every runtime must report.
func checkRuntimeStatus(r *runtimeapi.StatusResponse) error {
	seen := make(map[string]bool)
	for _, c := range r.GetStatus().GetConditions() {
		seen[c.GetType()] = true
	}
	for _, want := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if !seen[want] {
			return missing("condition " + want)
		}
	}
	return nil
}

func checkSandbox(s *runtimeapi.PodSandboxStatus) error {
	switch {
	case s == nil:
		return missing("status")
	case s.GetId() == "":
		return missing("status.id")
	case s.GetMetadata() == nil:
		return missing("status.metadata")
	case s.GetMetadata().GetName() == "":
		return missing("status.metadata.name")
	case s.GetMetadata().GetNamespace() == "":
		return missing("status.metadata.namespace")
	case s.GetMetadata().GetUid() == "":
		return missing("status.metadata.uid")
	case s.GetCreatedAt() == 0:
		return missing("status.created_at")
	}
	return nil
}

func checkContainer(s *runtimeapi.ContainerStatus) error {
	switch {
	case s == nil:
		return missing("status")
	case s.GetId() == "":
		return missing("status.id")
	case s.GetMetadata() == nil:
		return missing("status.metadata")
	case s.GetMetadata().GetName() == "":
		return missing("status.metadata.name")
	case s.GetCreatedAt() == 0:
		return missing("status.created_at")
	case s.GetImage().GetImage() == "":
		return missing("status.image")
	case s.GetImageRef() == "":
		return missing("status.image_ref")
	}
	return nil
}

// checkImage accepts nil, which is the answer for an image that is not there.
func checkImage(i *runtimeapi.Image) error {
	switch {
	case i == nil:
		return nil
	case i.GetId() == "":
		return missing("image.id")
	case i.GetSize() == 0:
		return missing("image.size")
	}
	return nil
}
