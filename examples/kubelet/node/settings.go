package node

import (
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/staticpods"
)

// Honoured lists the fields of a KubeletConfiguration that a Node acts on, for
// allocatable/config, which reports the others.
func Honoured() []string {
	return []string{
		"address",
		"allowedUnsafeSysctls",
		"authentication",
		"authorization",
		"cgroupDriver", "cgroupRoot",
		"clusterDNS", "clusterDomain",
		"containerLogMaxFiles", "containerLogMaxSize", "containerLogMonitorInterval",
		"containerRuntimeEndpoint",
		"contentType",
		"cpuCFSQuota", "cpuCFSQuotaPeriod",
		"cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod",
		"crashLoopBackOff",
		"enableContentionProfiling", "enableControllerAttachDetach", "enableDebugFlagsHandler", "enableDebuggingHandlers",
		"enableProfilingHandler", "enableServer", "enableSystemLogHandler", "enableSystemLogQuery",
		"enforceNodeAllocatable",
		"evictionHard", "evictionMaxPodGracePeriod", "evictionMinimumReclaim", "evictionPressureTransitionPeriod",
		"evictionSoft", "evictionSoftGracePeriod",
		"fileCheckFrequency",
		"healthzBindAddress", "healthzPort",
		"httpCheckFrequency",
		"imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
		"imageMaximumGCAge", "imageMinimumGCAge",
		"imagePullCredentialsVerificationPolicy",
		"kubeAPIBurst", "kubeAPIQPS",
		"kernelMemcgNotification",
		"kubeReserved", "kubeReservedCgroup",
		"localStorageCapacityIsolation",
		"maxParallelImagePulls",
		"maxPods",
		"memoryManagerPolicy",
		"memoryReservationPolicy",
		"memorySwap",
		"memoryThrottlingFactor",
		"mergeDefaultEvictionSettings",
		"nodeLeaseDurationSeconds",
		"nodeStatusMaxImages", "nodeStatusReportFrequency", "nodeStatusUpdateFrequency",
		"podLogsDir",
		"podPidsLimit",
		"podsPerCore",
		"port",
		"preloadedImagesVerificationAllowlist",
		"providerID",
		"readOnlyPort",
		"registerNode",
		"registerWithTaints",
		"registryBurst", "registryPullQPS",
		"reservedMemory",
		"reservedSystemCPUs",
		"resolvConf",
		"runtimeRequestTimeout",
		"seccompDefault",
		"serializeImagePulls",
		"serverTLSBootstrap",
		"shutdownGracePeriod", "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods",
		"singleProcessOOMKill",
		"staticPodPath", "staticPodURL", "staticPodURLHeader",
		"streamingConnectionIdleTimeout",
		"syncFrequency",
		"systemReserved", "systemReservedCgroup",
		"tlsCertFile", "tlsCipherSuites", "tlsCurvePreferences", "tlsMinVersion", "tlsPrivateKeyFile",
		"topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope",
		"userNamespaces",
		"volumeStatsAggPeriod",
	}
}

// AdoptUID finds the UID under which a pod of a manifest runs already, made by an
// agent of another make.
type AdoptUID func(pod *corev1.Pod) (types.UID, bool)

// dialer connects to the runtime of the configuration and counts the calls.
func dialer(k *kubeletconfig.KubeletConfiguration, m *metrics) func(context.Context) (Runtime, error) {
	return func(ctx context.Context) (Runtime, error) {
		c, err := runtime.Dial(ctx, k.ContainerRuntimeEndpoint, runtime.Config{Timeout: k.RuntimeRequestTimeout.Duration, Called: m.called})
		if err != nil {
			return nil, err
		}
		return countedClient{c, m.tally}, nil
	}
}

// directory reads the manifests of the configuration. Without staticPodPath the
// node has no pods.
func directory(c Config) func(AdoptUID) (Source, error) {
	return func(adopt AdoptUID) (Source, error) {
		if c.Kubelet.StaticPodPath == "" {
			return nothing{}, nil
		}
		return staticpods.Dir(c.Kubelet.StaticPodPath, staticpods.Config{
			NodeName: c.Name,
			Period:   c.Kubelet.FileCheckFrequency.Duration,
			AdoptUID: adopt,
			Log:      c.Log,
		})
	}
}

// remote reads the manifests of the URL of the configuration.
func remote(c Config) func(AdoptUID) (Source, error) {
	return func(adopt AdoptUID) (Source, error) {
		return staticpods.URL(c.Kubelet.StaticPodURL, staticpods.RemoteConfig{
			Config: staticpods.Config{
				NodeName: c.Name,
				Period:   c.Kubelet.HTTPCheckFrequency.Duration,
				AdoptUID: adopt,
				Log:      c.Log,
			},
			Header: c.Kubelet.StaticPodURLHeader,
		})
	}
}

// nothing is the source of a node without manifests.
type nothing struct{}

// Run delivers the empty set.
func (nothing) Run(ctx context.Context, set func(staticpods.Set)) error {
	set(staticpods.Set{})
	<-ctx.Done()
	return nil
}

// Statuses returns nothing.
func (nothing) Statuses() []staticpods.FileStatus { return nil }

// listen opens a listener of the operating system.
func listen(ctx context.Context, network, address string) (net.Listener, error) {
	if network == "unix" {
		return listenSocket(ctx, address)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, network, address)
}

// healthAddress returns where /healthz is served; empty: nowhere.
func healthAddress(k *kubeletconfig.KubeletConfiguration) string {
	if *k.HealthzPort == 0 {
		return ""
	}
	return net.JoinHostPort(k.HealthzBindAddress, strconv.Itoa(int(*k.HealthzPort)))
}

// readOnlyAddress returns where everybody may look, on the address of the kubelet; empty:
// nowhere, the default.
func readOnlyAddress(k *kubeletconfig.KubeletConfiguration) string {
	if k.ReadOnlyPort == 0 {
		return ""
	}
	return net.JoinHostPort(k.Address, strconv.Itoa(int(k.ReadOnlyPort)))
}

// The values of the field cgroupDriver.
const (
	driverCgroupfs = "cgroupfs"
	driverSystemd  = "systemd"
)

// syncConfig returns what the Syncer needs to know of this node.
func (n *Node) syncConfig(instance, runtimeName, cgroupDriver string) (podsync.Config, error) {
	k := n.cfg.Kubelet
	facts, err := n.hostFacts()
	if err != nil {
		return podsync.Config{}, err
	}
	host := n.cfg.Host
	if host == nil {
		host = thisHost(k)
		describeMachine(host, n.resources.p.Load(), k)
	}
	node, now := *host, facts()
	node.IPs, node.Hosts, node.DNS = now.IPs, now.Hosts, now.DNS
	node.Name, node.Root, node.Instance = n.cfg.Name, n.cfg.Root, instance
	node.Logs = k.PodLogsDir
	node.Cgroups = podspec.Cgroups{Root: k.CgroupRoot, Systemd: cgroupDriver == driverSystemd}
	c := podsync.Config{
		Node:        node,
		RuntimeName: runtimeName,
		TakeOver:    n.cfg.TakeOver,
		Prober:      n.cfg.Probes.Results,
		Cgroups:     n.cfg.Cgroups,
		Limits:      n.cfg.Limits,
		Parts:       podsync.Parts{Reach: n.cfg.Probes.Reach, Facts: facts},
		Log:         n.log,
	}
	if limit := k.CrashLoopBackOff.MaxContainerRestartPeriod; limit != nil {
		c.MaxBackoff = limit.Duration
	}
	if k.PodLogsDir == podspec.DefaultLogs {
		// Log collectors look there for the pods of the machine, not for those of a
		// node beside it that keeps its logs elsewhere.
		c.LogLinks = logLinks
	}
	return c, nil
}

// logLinks is where the kubelet links the logs of all running containers.
const logLinks = "/var/log/containers"

// thisHost describes to pods what of this machine does not change.
func thisHost(k *kubeletconfig.KubeletConfiguration) *podspec.Node {
	node := &podspec.Node{
		Memory:         hostMemory(),
		Masked:         throttleCounters(),
		SELinux:        hasSELinux(),
		SeccompDefault: k.SeccompDefault != nil && *k.SeccompDefault,
		NoCPUQuota:     k.CPUCFSQuota != nil && !*k.CPUCFSQuota,
	}
	if p := k.CPUCFSQuotaPeriod; p != nil {
		node.CPUQuotaPeriod = p.Duration
	}
	return node
}
