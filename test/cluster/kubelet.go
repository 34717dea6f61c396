package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// kubeletRoot and podLogs are the kubelet's folders, as the node sees them: the usual
// ones, but not where others may use them, too.
func (n *Node) kubeletRoot() string {
	if n.adopted() {
		return n.KubeletRoot()
	}
	return "/var/lib/kubelet"
}

func (n *Node) podLogs() string {
	if n.adopted() {
		return n.PodLogs()
	}
	return "/var/log/pods"
}

// kubeletScript starts a kubelet, $3 and on, that sees files in the folder $1 in place
// of the machine's settings. On somebody else's runtime, the folder $2 takes the place of
// folders of the machine that any kubelet writes to.
const kubeletScript = `set -e
settings=$1 cover=$2
shift 2
` + testnode.CoverSettings + `if [ -n "$cover" ]; then
	mkdir -p "$cover/log" "$cover/kubelet" /var/lib/kubelet
	mount --bind "$cover/log" /var/log
	mount --bind "$cover/kubelet" /var/lib/kubelet
fi
exec "$@"`

// shareScript makes the kubelet's mounts in the folder $1 the runtime's, too, and the
// folder $2 for what covers those of the machine.
const shareScript = `set -e
mkdir -p "$1" "$2"
mount --bind "$1" "$1"
mount --make-shared "$1"`

// kubeletProgram is the node's kubelet. Its mounts are the node's.
func (n *Node) kubeletProgram(kubeconfig string) *Program {
	return &Program{
		name: "kubelet",
		launch: func(ctx context.Context) (*testnode.Process, error) {
			source, _ := n.sources()
			binary, err := n.cluster.binaries.node(ctx, n, "kubelet", source)
			if err != nil {
				return nil, err
			}
			if err := n.writeKubeletConfig(); err != nil {
				return nil, err
			}
			settings := n.Dir("settings")
			if err := testnode.CopySettings(settings); err != nil {
				return nil, err
			}
			cover := ""
			if n.adopted() {
				cover = n.Dir("cover")
			}
			args := []string{
				"--mount", "--propagation", "unchanged",
				"sh", "-c", kubeletScript, "kubelet", settings, cover, binary,
				"--config=" + n.Dir("kubelet.yaml"), "--kubeconfig=" + kubeconfig, "--root-dir=" + n.kubeletRoot(),
				"--hostname-override=" + n.name, "--node-ip=" + n.Address().String(), "-v=2",
			}
			return n.StartProcess("kubelet", "unshare", append(args, n.cfg.KubeletFlags...)...)
		},
		ready: n.answers("http://127.0.0.1:10248/healthz"),
	}
}

func (n *Node) writeKubeletConfig() error {
	resolv := n.Dir("resolv.conf")
	if err := os.WriteFile(resolv, []byte("# Nobody resolves names for this machine.\n"), 0o644); err != nil {
		return fmt.Errorf("write resolv.conf: %w", err)
	}
	type object = map[string]any
	config := object{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + n.Socket(),
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               n.CgroupRoot(),
		"staticPodPath":            n.Manifests(),
		"podLogsDir":               n.podLogs(),
		"clusterDNS":               []string{DNSAddress},
		"clusterDomain":            ClusterDomain,
		"resolvConf":               resolv,
		"tlsCertFile":              n.pki("kubelet-serving.crt"),
		"tlsPrivateKeyFile":        n.pki("kubelet-serving.key"),
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": n.pki("ca.crt")},
		},
		"authorization": object{"mode": "Webhook"},
		"failSwapOn":    false,
		// Test machines have version 1, and root without CAP_SYS_RESOURCE.
		"failCgroupV1": false,
		"featureGates": object{"KubeletInUserNamespace": true},
		// The machine's disk is not the node's to guard.
		"evictionHard": object{
			"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
		},
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
	}
	if n.adopted() {
		config["makeIPTablesUtilChains"] = false
	}
	maps.Copy(config, n.cfg.KubeletSettings)
	return writeJSON(n.Dir("kubelet.yaml"), config)
}

// answers returns a check that a health check on the node answers.
func (n *Node) answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := n.Get(ctx, url)
		return err
	}
}

// runtimeProgram is the node's containerd, which runs already.
func (n *Node) runtimeProgram() *Program {
	return &Program{
		name: "containerd",
		launch: func(context.Context) (*testnode.Process, error) {
			if n.adopted() {
				return nil, fmt.Errorf("start the runtime at %s: it is not the cluster's", n.Socket())
			}
			return n.LaunchContainerd()
		},
		ready:   n.ContainerdReady,
		process: n.Containerd(),
	}
}
