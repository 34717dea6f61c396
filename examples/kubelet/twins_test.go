package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// TestTwinsHaveFields: every twin sets a field that there is, and its default can be read
// by its own flag.
func TestTwinsHaveFields(t *testing.T) {
	o := &options{}
	o.command()
	for _, v := range o.values {
		if v.kind == nil {
			t.Errorf("--%s sets %s, which is no field", v.flag, v.field)
			continue
		}
		if v.shown == "" || v.field == "nodeStatusReportFrequency" {
			continue
		}
		if _, err := v.parse(v.shown); err != nil {
			t.Errorf("--%s has the default %q: %v", v.flag, v.shown, err)
		}
	}
}

// stockFlags are the flags of a kubelet 1.37.2.
const stockFlags = `address allowed-unsafe-sysctls anonymous-auth authentication-token-webhook authentication-token-webhook-cache-ttl
authorization-mode authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl bootstrap-kubeconfig cert-dir
cgroup-driver cgroup-root cgroups-per-qos client-ca-file cloud-provider cluster-dns cluster-domain config config-dir container-log-max-files
container-log-max-size container-runtime-endpoint contention-profiling cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy
cpu-manager-policy-options cpu-manager-reconcile-period enable-controller-attach-detach enable-debugging-handlers enable-server
enforce-node-allocatable event-burst event-qps eviction-hard eviction-max-pod-grace-period eviction-minimum-reclaim
eviction-pressure-transition-period eviction-soft eviction-soft-grace-period exit-on-lock-contention
experimental-allocatable-ignore-eviction experimental-mounter-path fail-cgroupv1 fail-swap-on feature-gates file-check-frequency
hairpin-mode healthz-bind-address healthz-port hostname-override housekeeping-interval http-check-frequency
image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold image-gc-low-threshold image-service-endpoint
kernel-memcg-notification kube-api-burst kube-api-content-type kube-api-qps kube-reserved kube-reserved-cgroup kubeconfig kubelet-cgroups
local-storage-capacity-isolation lock-file log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size
log-text-split-stream logging-format make-iptables-util-chains manifest-url manifest-url-header max-open-files max-pods
maximum-dead-containers maximum-dead-containers-per-container memory-manager-policy minimum-container-ttl-duration
minimum-image-ttl-duration node-ip node-labels node-status-max-images node-status-update-frequency oom-score-adj pod-cidr
pod-manifest-path pod-max-pids pods-per-core port protect-kernel-defaults provider-id qos-reserved read-only-port register-node
register-with-taints registry-burst registry-qps reserved-cpus reserved-memory resolv-conf root-dir rotate-certificates
rotate-server-certificates runonce runtime-cgroups runtime-request-timeout seccomp-default serialize-image-pulls
streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved system-reserved-cgroup tls-cert-file tls-cipher-suites
tls-min-version tls-private-key-file topology-manager-policy topology-manager-policy-options topology-manager-scope v version vmodule
volume-plugin-dir volume-stats-agg-period`

// TestFlagsWithUnderscores are those of old scripts.
func TestFlagsWithUnderscores(t *testing.T) {
	o, err := parse([]string{"--pod_manifest_path=/x", "--node_labels", "a=b", "--max-pods=7"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	k, _, err := o.load()
	if err != nil || k.StaticPodPath != "/x" || k.MaxPods != 7 || o.labels != "a=b" {
		t.Errorf("staticPodPath %q, maxPods %d, labels %q, error %v", k.StaticPodPath, k.MaxPods, o.labels, err)
	}
}

func TestEveryFlagOfAStockKubeletIsTaken(t *testing.T) {
	flags := (&options{}).command().Flags()
	for flag := range strings.FieldsSeq(stockFlags) {
		if flags.Lookup(flag) == nil {
			t.Errorf("--%s is unknown", flag)
		}
	}
}

// TestFlagsWinOverDropInsWinOverTheFile reads one configuration of all three.
func TestFlagsWinOverDropInsWinOverTheFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(head+content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("config.yaml", "maxPods: 10\npodsPerCore: 1\nregistryBurst: 3\nkubeReserved: {cpu: 100m, memory: 1Gi}\nfeatureGates: {PodLogsQuerySplitStreams: true}\nclusterDNS: [10.0.0.1]\n")
	write("d/10.conf", "maxPods: 20\npodsPerCore: 2\n")
	o, err := parse([]string{
		"--config", file, "--config-dir", filepath.Join(dir, "d"), "--max-pods=30", "--kube-reserved=cpu=200m", "--cluster-dns=10.0.0.2,10.0.0.3",
		"--feature-gates=KubeletInUserNamespace=true", "--register-with-taints=a=b:NoSchedule,c:NoExecute", "--register-node=false",
		"--reserved-memory=0:memory=1Gi,hugepages-2Mi=4Mi", "--reserved-memory=1:memory=2Gi", "--eviction-hard=memory.available<1Gi,nodefs.available<5%",
		"--sync-frequency=2m", "--anonymous-auth", "--cgroup-root=", "--provider-id=cloud://7", "--manifest-url-header=a:b,a:c",
		"--log-flush-frequency=7s", "--vmodule=agent*=4", "--log-text-info-buffer-size=1Mi",
	}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	k, _, err := o.read()
	if err != nil {
		t.Fatal(err)
	}
	memory := func(node int32, list corev1.ResourceList) kubeletconfig.MemoryReservation {
		return kubeletconfig.MemoryReservation{NumaNode: node, Limits: list}
	}
	got := []any{
		k.MaxPods, k.PodsPerCore, k.RegistryBurst, k.KubeReserved, k.ClusterDNS, k.FeatureGates, k.RegisterWithTaints, *k.RegisterNode,
		k.ReservedMemory, k.EvictionHard, k.SyncFrequency.Duration.String(), *k.Authentication.Anonymous.Enabled, k.ProviderID, k.StaticPodURLHeader,
		k.Logging.FlushFrequency.Duration.Duration.String(), len(k.Logging.VModule), k.Logging.VModule[0].FilePattern,
	}
	want := []any{
		int32(30), int32(2), int32(3),
		map[string]string{"cpu": "200m"},
		[]string{"10.0.0.2", "10.0.0.3"},
		map[string]bool{"PodLogsQuerySplitStreams": true, "KubeletInUserNamespace": true},
		[]corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "c", Effect: "NoExecute"}},
		false,
		[]kubeletconfig.MemoryReservation{
			memory(0, corev1.ResourceList{"memory": resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("4Mi")}),
			memory(1, corev1.ResourceList{"memory": resource.MustParse("2Gi")}),
		},
		map[string]string{"memory.available": "1Gi", "nodefs.available": "5%"},
		"2m0s", true, "cloud://7",
		map[string][]string{"a": {"b", "c"}},
		"7s", 1, "agent*",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// FuzzTwins: no value of a flag breaks the program, and one that is taken can be loaded
// or is refused by name.
func FuzzTwins(f *testing.F) {
	o := &options{}
	o.command()
	for i := range o.values {
		for _, seed := range []string{"0:memory=1Gi;1:memory=2Gi", "a=b:NoSchedule", "-1", ",=,"} {
			f.Add(uint8(i), seed) //nolint:gosec // there are fewer
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		o := &options{}
		o.command()
		v := o.values[int(which)%len(o.values)]
		if err := v.Set(value); err != nil {
			return
		}
		if _, _, err := o.read(); err != nil && !strings.Contains(err.Error(), "--"+v.flag) {
			t.Errorf("--%s=%q: %v", v.flag, value, err)
		}
	})
}
