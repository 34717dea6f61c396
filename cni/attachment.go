package cni

import (
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/utils"
)

// Key names an attachment: one interface of one container. It is unique over all
// networks.
type Key struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// String returns "<container>/<interface>".
func (k Key) String() string { return k.ContainerID + "/" + k.IfName }

// Attachment is what an ADD is about.
type Attachment struct {
	// ContainerID is the sandbox's; letters, digits, '_', '.', '-', the first a letter
	// or a digit.
	ContainerID string
	// IfName is the interface inside, such as "eth0"; at most 15 bytes.
	IfName string
	// NetNS is the path of the network namespace. DEL may do without.
	NetNS string
	// Args are passed to every plugin as CNI_ARGS, in this order; see PodArgs.
	Args []Arg
	// Capabilities are passed to the plugins that ask for them.
	Capabilities Capabilities
}

// Key returns the name of the attachment.
func (a Attachment) Key() Key { return Key{ContainerID: a.ContainerID, IfName: a.IfName} }

// Arg is one pair of CNI_ARGS. Neither half may contain ';', and the key no '='.
type Arg struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// PodArgs returns the arguments that plugins for Kubernetes expect: the names that
// containerd and CRI-O pass.
func PodArgs(namespace, name, uid, containerID string) []Arg {
	return []Arg{
		{"IgnoreUnknown", "1"},
		{"K8S_POD_NAMESPACE", namespace},
		{"K8S_POD_NAME", name},
		{"K8S_POD_INFRA_CONTAINER_ID", containerID},
		{"K8S_POD_UID", uid},
	}
}

// validate names the field that is wrong.
func (a *Attachment) validate() error {
	if err := utils.ValidateContainerID(a.ContainerID); err != nil {
		return fmt.Errorf("ContainerID %q: %s", a.ContainerID, err.Msg)
	}
	if err := utils.ValidateInterfaceName(a.IfName); err != nil {
		return fmt.Errorf("IfName %q: %s", a.IfName, err.Msg)
	}
	for _, arg := range a.Args {
		if arg.Key == "" || strings.ContainsAny(arg.Key, ";=\x00") || strings.ContainsAny(arg.Value, ";\x00") {
			return fmt.Errorf("argument %q=%q cannot be passed in CNI_ARGS: the key is empty, or one of ; and = is in it", arg.Key, arg.Value)
		}
	}
	if strings.Contains(a.NetNS, "\x00") {
		return fmt.Errorf("NetNS %q: has a zero byte", a.NetNS)
	}
	return a.Capabilities.validate()
}
