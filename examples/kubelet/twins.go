package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/internal/cli"
)

// twin is a flag that sets a field of the configuration. Its names are the kubelet's
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet).
type twin struct {
	flag, field, usage string
	// values are those it takes, for completion; empty: any.
	values []string
}

// twins are the flags with a field in the configuration, over which they win. They are
// taken whether or not the field has an effect: what has none is reported as if it stood
// in a file.
type twins struct {
	values []*twinValue
}

// add defines all twins, in groups of the command.
func (t *twins) add(c *cli.Command) {
	defaults := defaultValues()
	for _, group := range []struct {
		title string
		twins []twin
	}{
		{"Pods", sourceTwins()},
		{"Serving", serverTwins()},
		{"Certificates and access", accessTwins()},
		{"Talking to the API server", clientTwins()},
		{"The Node", nodeTwins()},
		{"Runtime, images and logs of containers", runtimeTwins()},
		{"Cgroups and reservations", cgroupTwins()},
		{"CPUs, memory and devices", alignmentTwins()},
		{"Eviction", evictionTwins()},
		{"Networks, volumes and the machine", hostTwins()},
		{"Log", logTwins()},
	} {
		f := c.Group(group.title)
		for _, def := range group.twins {
			t.define(f, def, defaults)
		}
	}
}

func (t *twins) define(f *pflag.FlagSet, def twin, defaults map[string]any) {
	v := &twinValue{twin: def, kind: fieldType(def.field), shown: show(defaults[def.field])}
	if def.field == "evictionHard" {
		v.shown = strings.ReplaceAll(v.shown, "=", "<") // as the flag has it
	}
	flag := f.VarPF(v, def.flag, "", def.usage+"; sets "+def.field)
	if v.isBool() {
		flag.NoOptDefVal = "true"
	}
	if len(def.values) > 0 {
		cli.Values(f, def.flag, def.values...)
	}
	t.values = append(t.values, v)
}

// overrides returns what was set.
func (t *twins) overrides() []config.Override {
	var list []config.Override
	for _, v := range t.values {
		if v.set {
			list = append(list, config.Override{
				Field: v.field, Value: v.value, Source: "--" + v.flag,
				Merge: v.field == "featureGates",
			})
		}
	}
	return list
}

func sourceTwins() []twin {
	return []twin{
		{flag: "pod-manifest-path", field: "staticPodPath", usage: "`directory` or file of manifests"},
		{flag: "file-check-frequency", field: "fileCheckFrequency", usage: "`time` between two looks at it, beside inotify"},
		{flag: "manifest-url", field: "staticPodURL", usage: "`address` of more manifests"},
		{flag: "manifest-url-header", field: "staticPodURLHeader", usage: "`name:value,...` headers of requests to it"},
		{flag: "http-check-frequency", field: "httpCheckFrequency", usage: "`time` between two requests to it"},
		{flag: "sync-frequency", field: "syncFrequency", usage: "`time` after which a pod is looked at again at the latest"},
		{flag: "runonce", field: "runOnce", usage: "refused: no kubelet has this mode any more; see run --once"},
	}
}

func serverTwins() []twin {
	return []twin{
		{flag: "enable-server", field: "enableServer", usage: "serve the API of the kubelet"},
		{flag: "address", field: "address", usage: "`address` to serve on"},
		{flag: "port", field: "port", usage: "`port` of the API"},
		{flag: "read-only-port", field: "readOnlyPort", usage: "`port` for everybody, without any access control; 0: none"},
		{flag: "healthz-bind-address", field: "healthzBindAddress", usage: "`address` of /healthz"},
		{flag: "healthz-port", field: "healthzPort", usage: "`port` of /healthz; 0: none"},
		{flag: "streaming-connection-idle-timeout", field: "streamingConnectionIdleTimeout", usage: "`time` after which an idle exec, attach or port-forward ends"},
		{flag: "enable-debugging-handlers", field: "enableDebuggingHandlers", usage: "serve logs, exec, attach, port-forward and profiles"},
		{flag: "contention-profiling", field: "enableContentionProfiling", usage: "profile blocking, too"},
	}
}

func accessTwins() []twin {
	return []twin{
		{flag: "client-ca-file", field: "authentication.x509.clientCAFile", usage: "`file` with the authorities of client certificates"},
		{flag: "anonymous-auth", field: "authentication.anonymous.enabled", usage: "take requests without credentials"},
		{flag: "authentication-token-webhook", field: "authentication.webhook.enabled", usage: "have the API server judge bearer tokens"},
		{flag: "authentication-token-webhook-cache-ttl", field: "authentication.webhook.cacheTTL", usage: "`time` for which its answers hold"},
		{flag: "authorization-mode", field: "authorization.mode", usage: "who may do what: `mode` Webhook or AlwaysAllow", values: []string{"Webhook", "AlwaysAllow"}},
		{flag: "authorization-webhook-cache-authorized-ttl", field: "authorization.webhook.cacheAuthorizedTTL", usage: "`time` for which a yes holds"},
		{flag: "authorization-webhook-cache-unauthorized-ttl", field: "authorization.webhook.cacheUnauthorizedTTL", usage: "`time` for which a no holds"},
		{flag: "tls-cert-file", field: "tlsCertFile", usage: "`file` with the serving certificate"},
		{flag: "tls-private-key-file", field: "tlsPrivateKeyFile", usage: "`file` with its key"},
		{flag: "tls-min-version", field: "tlsMinVersion", usage: "lowest `version` of TLS", values: []string{"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"}},
		{flag: "tls-cipher-suites", field: "tlsCipherSuites", usage: "`names` of cipher suites, with commas"},
		{flag: "rotate-certificates", field: "rotateCertificates", usage: "renew the client certificate in time"},
		{flag: "rotate-server-certificates", field: "serverTLSBootstrap", usage: "get the serving certificate from the cluster, and renew it in time"},
	}
}

func clientTwins() []twin {
	return []twin{
		{flag: "kube-api-qps", field: "kubeAPIQPS", usage: "`number` of requests a second"},
		{flag: "kube-api-burst", field: "kubeAPIBurst", usage: "`number` of requests at once"},
		{flag: "kube-api-content-type", field: "contentType", usage: "`type` of requests"},
		{flag: "event-qps", field: "eventRecordQPS", usage: "`number` of events a second; 0: any"},
		{flag: "event-burst", field: "eventBurst", usage: "`number` of events at once"},
	}
}

func nodeTwins() []twin {
	return []twin{
		{flag: "register-node", field: "registerNode", usage: "create the Node if it does not exist"},
		{flag: "register-with-taints", field: "registerWithTaints", usage: "`key=value:effect,...` taints that a new Node gets"},
		{flag: "provider-id", field: "providerID", usage: "`id` of the machine at its cloud"},
		{flag: "node-status-update-frequency", field: "nodeStatusUpdateFrequency", usage: "`time` between two looks at the node"},
		{flag: "node-status-max-images", field: "nodeStatusMaxImages", usage: "`number` of images that the Node names; -1: all"},
		{flag: "max-pods", field: "maxPods", usage: "`number` of pods at most"},
		{flag: "pods-per-core", field: "podsPerCore", usage: "`number` of pods for each CPU at most; 0: any"},
		{flag: "pod-max-pids", field: "podPidsLimit", usage: "`number` of processes of a pod at most; -1: any"},
		{flag: "pod-cidr", field: "podCIDR", usage: "`range` of pods' addresses on a node of its own"},
	}
}

func runtimeTwins() []twin {
	return []twin{
		{flag: "container-runtime-endpoint", field: "containerRuntimeEndpoint", usage: "`address` of the runtime, unix:///…"},
		{flag: "image-service-endpoint", field: "imageServiceEndpoint", usage: "`address` of the image service, if it is not the runtime's"},
		{flag: "runtime-request-timeout", field: "runtimeRequestTimeout", usage: "`time` for a call to the runtime but pulls, logs, exec and attach"},
		{flag: "serialize-image-pulls", field: "serializeImagePulls", usage: "pull one image at a time"},
		{flag: "registry-qps", field: "registryPullQPS", usage: "`number` of pulls a second; 0: any"},
		{flag: "registry-burst", field: "registryBurst", usage: "`number` of pulls at once"},
		{flag: "image-gc-high-threshold", field: "imageGCHighThresholdPercent", usage: "`percent` of disk use from which unused images go; 100: never"},
		{flag: "image-gc-low-threshold", field: "imageGCLowThresholdPercent", usage: "`percent` of disk use down to which they go"},
		{flag: "minimum-image-ttl-duration", field: "imageMinimumGCAge", usage: "least `age` of an image that goes"},
		{flag: "container-log-max-size", field: "containerLogMaxSize", usage: "`size` of a container's log before it is rotated"},
		{flag: "container-log-max-files", field: "containerLogMaxFiles", usage: "`number` of logs kept for a container"},
		{flag: "seccomp-default", field: "seccompDefault", usage: "confine containers by the runtime's seccomp profile by default"},
		{flag: "allowed-unsafe-sysctls", field: "allowedUnsafeSysctls", usage: "`names` of sysctls that pods may set beside the safe ones, with commas"},
	}
}

func cgroupTwins() []twin {
	return []twin{
		{flag: "cgroup-driver", field: "cgroupDriver", usage: "who names cgroups, if the runtime does not say: `driver` cgroupfs or systemd", values: []string{"cgroupfs", "systemd"}},
		{flag: "cgroup-root", field: "cgroupRoot", usage: "`path` of the cgroup of all pods"},
		{flag: "cgroups-per-qos", field: "cgroupsPerQOS", usage: "make cgroups for classes and pods"},
		{flag: "kubelet-cgroups", field: "kubeletCgroups", usage: "`path` of the cgroup of this program"},
		{flag: "system-cgroups", field: "systemCgroups", usage: "`path` of the cgroup for processes that have none"},
		{flag: "kube-reserved", field: "kubeReserved", usage: "`resource=amount,...` kept from pods for Kubernetes' own programs"},
		{flag: "system-reserved", field: "systemReserved", usage: "`resource=amount,...` kept from pods for all others"},
		{flag: "reserved-cpus", field: "reservedSystemCPUs", usage: "`CPUs` kept from pods, like 0-1,4"},
		{flag: "kube-reserved-cgroup", field: "kubeReservedCgroup", usage: "`path` of the cgroup of Kubernetes' own programs"},
		{flag: "system-reserved-cgroup", field: "systemReservedCgroup", usage: "`path` of the cgroup of all others"},
		{flag: "enforce-node-allocatable", field: "enforceNodeAllocatable", usage: "`levels` at which reservations are enforced, with commas"},
		{flag: "qos-reserved", field: "qosReserved", usage: "`resource=percent,...` of requests kept from lower classes"},
		{flag: "cpu-cfs-quota", field: "cpuCFSQuota", usage: "hold containers to their CPU limits"},
		{flag: "cpu-cfs-quota-period", field: "cpuCFSQuotaPeriod", usage: "`time` over which CPU limits are measured"},
		{flag: "fail-cgroupv1", field: "failCgroupV1", usage: "do not start on a machine with cgroup version 1"},
		{flag: "fail-swap-on", field: "failSwapOn", usage: "do not start on a machine that swaps"},
		{flag: "oom-score-adj", field: "oomScoreAdj", usage: "`number` that protects this program from the kernel's choice"},
	}
}

func alignmentTwins() []twin {
	return []twin{
		{flag: "cpu-manager-policy", field: "cpuManagerPolicy", usage: "`policy` none or static", values: []string{"none", "static"}},
		{flag: "cpu-manager-policy-options", field: "cpuManagerPolicyOptions", usage: "`option=value,...` for it"},
		{flag: "cpu-manager-reconcile-period", field: "cpuManagerReconcilePeriod", usage: "`time` between two looks at the CPUs of containers"},
		{flag: "memory-manager-policy", field: "memoryManagerPolicy", usage: "`policy` None or Static", values: []string{"None", "Static"}},
		{flag: "reserved-memory", field: "reservedMemory", usage: "`node:type=amount,...` kept from pods on a NUMA node; may be given for each"},
		{flag: "topology-manager-policy", field: "topologyManagerPolicy", usage: "`policy` none, best-effort, restricted or single-numa-node", values: []string{"none", "best-effort", "restricted", "single-numa-node"}},
		{flag: "topology-manager-policy-options", field: "topologyManagerPolicyOptions", usage: "`option=value,...` for it"},
		{flag: "topology-manager-scope", field: "topologyManagerScope", usage: "what is aligned as a whole: `scope` container or pod", values: []string{"container", "pod"}},
	}
}

func evictionTwins() []twin {
	return []twin{
		{flag: "eviction-hard", field: "evictionHard", usage: "`signal<amount,...` at which pods are evicted at once"},
		{flag: "eviction-soft", field: "evictionSoft", usage: "`signal<amount,...` at which they are evicted after a time"},
		{flag: "eviction-soft-grace-period", field: "evictionSoftGracePeriod", usage: "`signal=time,...` for which a soft threshold has to be crossed"},
		{flag: "eviction-max-pod-grace-period", field: "evictionMaxPodGracePeriod", usage: "`seconds` that a pod has to end then, at most"},
		{flag: "eviction-minimum-reclaim", field: "evictionMinimumReclaim", usage: "`signal=amount,...` to win back beyond the threshold"},
		{flag: "eviction-pressure-transition-period", field: "evictionPressureTransitionPeriod", usage: "`time` for which a pressure is told after it has gone"},
		{flag: "kernel-memcg-notification", field: "kernelMemcgNotification", usage: "have the kernel tell when memory runs short"},
		{flag: "local-storage-capacity-isolation", field: "localStorageCapacityIsolation", usage: "hold pods to their limits of local storage"},
	}
}

func hostTwins() []twin {
	return []twin{
		{flag: "cluster-dns", field: "clusterDNS", usage: "`addresses` of the cluster's DNS, with commas"},
		{flag: "cluster-domain", field: "clusterDomain", usage: "`domain` of the cluster"},
		{flag: "resolv-conf", field: "resolvConf", usage: "`file` with the machine's DNS; empty: none"},
		{flag: "hairpin-mode", field: "hairpinMode", usage: "how a pod reaches itself: `mode`", values: []string{"promiscuous-bridge", "hairpin-veth", "none"}},
		{flag: "make-iptables-util-chains", field: "makeIPTablesUtilChains", usage: "show by a chain which iptables the machine has, and drop packets that fake loopback"},
		{flag: "protect-kernel-defaults", field: "protectKernelDefaults", usage: "do not start where kernel settings would have to change"},
		{flag: "max-open-files", field: "maxOpenFiles", usage: "`number` of files that this program may open"},
		{flag: "enable-controller-attach-detach", field: "enableControllerAttachDetach", usage: "leave attaching of volumes to the cluster"},
		{flag: "volume-plugin-dir", field: "volumePluginDir", usage: "`directory` of flexvolume plugins"},
		{flag: "volume-stats-agg-period", field: "volumeStatsAggPeriod", usage: "`time` between two measurements of volumes"},
		{flag: "feature-gates", field: "featureGates", usage: "`gate=true,...` features to switch; those that have no effect are reported"},
	}
}

func logTwins() []twin {
	return []twin{
		{flag: "logging-format", field: "logging.format", usage: "`format` of the log, text or json; --log-format wins", values: []string{"text", "json"}},
		{flag: "log-flush-frequency", field: "logging.flushFrequency", usage: "`time` after which the log is flushed"},
		{flag: "vmodule", field: "logging.vmodule", usage: "`pattern=level,...` of single files"},
		{flag: "log-text-split-stream", field: "logging.options.text.splitStream", usage: "write errors and the rest apart"},
		{flag: "log-text-info-buffer-size", field: "logging.options.text.infoBufferSize", usage: "`size` of the buffer for that"},
		{flag: "log-json-split-stream", field: "logging.options.json.splitStream", usage: "write errors and the rest apart"},
		{flag: "log-json-info-buffer-size", field: "logging.options.json.infoBufferSize", usage: "`size` of the buffer for that"},
	}
}
