package node

import (
	"os"
	"slices"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// GateUserNamespace is the feature gate of kubelets in user namespaces, which is on unless
// the configuration switches it off.
const GateUserNamespace = "KubeletInUserNamespace"

// identityMap tells which users of the machine the users of this process are, see
// user_namespaces(7).
const identityMap = "/proc/self/uid_map"

// inUserNamespace reports whether the kubelet runs in a user namespace other than the
// machine's own, in which each user is who it is; nil: the configuration has nobody told. A
// kernel without the file has no such namespaces.
func inUserNamespace(k *kubeletconfig.KubeletConfiguration, path string) *bool {
	if !switchedOn(k, GateUserNamespace) {
		return nil
	}
	data, err := os.ReadFile(path)
	machines := []string{"0", "0", "4294967295"}
	return new(err == nil && !slices.Equal(strings.Fields(string(data)), machines))
}
