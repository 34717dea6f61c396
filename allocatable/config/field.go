package config

import "strings"

// loss says what a node goes without when a program does not honour a field.
func loss(field string) string {
	top, _, _ := strings.Cut(field, ".")
	return "is not honoured: " + consequences()[groupOf(top)]
}

// group is a set of fields that fail together.
type group uint8

const (
	unknown group = iota
	apiClient
	cgroups
	clusterDNS
	containerLogs
	deviceAlignment
	endpoints
	eviction
	features
	hostSettings
	images
	nodeStatus
	observation
	podLimits
	podSecurity
	runtimeCalls
	serverAccess
	shutdown
	staticPods
	volumes
)

func consequences() map[group]string {
	return map[group]string{
		unknown:         "this program does not know what it is for",
		apiClient:       "calls to the API server are not shaped by it",
		cgroups:         "cgroups, reservations and quotas stay as the runtime makes them",
		clusterDNS:      "pods get the node's resolv.conf",
		containerLogs:   "container logs are not rotated by it",
		deviceAlignment: "CPUs, memory and devices are not aligned by it",
		endpoints:       "nothing is served where it says",
		eviction:        "pods are not evicted and images not collected by it",
		features:        "no feature is switched by it",
		hostSettings:    "the host is left as it is",
		images:          "images are not pulled or checked by it",
		nodeStatus:      "the node is not registered or reported by it",
		observation:     "logs, traces and statistics do not follow it",
		podLimits:       "pods are not limited by it",
		podSecurity:     "pods are not confined by it",
		runtimeCalls:    "calls to the runtime do not follow it",
		serverAccess:    "no server is protected by it",
		shutdown:        "a shutdown of the node does not wait for pods",
		staticPods:      "no pods come from there",
		volumes:         "volumes are not mounted or watched by it",
	}
}

// groupOf knows every field of KubeletConfiguration; a test says so.
func groupOf(field string) group {
	switch field {
	case "staticPodPath", "staticPodURL", "staticPodURLHeader", "fileCheckFrequency", "httpCheckFrequency", "syncFrequency", "runOnce":
		return staticPods
	case "enableServer", "address", "port", "readOnlyPort", "healthzPort", "healthzBindAddress", "streamingConnectionIdleTimeout",
		"enableDebuggingHandlers", "enableSystemLogHandler", "enableSystemLogQuery", "enableProfilingHandler", "enableDebugFlagsHandler":
		return endpoints
	case "tlsCertFile", "tlsPrivateKeyFile", "tlsCipherSuites", "tlsCurvePreferences", "tlsMinVersion", "rotateCertificates",
		"serverTLSBootstrap", "authentication", "authorization":
		return serverAccess
	case "kubeAPIQPS", "kubeAPIBurst", "contentType", "eventRecordQPS", "eventBurst":
		return apiClient
	case "registerNode", "registerWithTaints", "providerID", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency",
		"nodeLeaseDurationSeconds", "nodeStatusMaxImages", "podCIDR":
		return nodeStatus
	case "clusterDNS", "clusterDomain", "resolvConf":
		return clusterDNS
	case "maxPods", "podsPerCore", "podPidsLimit", "crashLoopBackOff":
		return podLimits
	case "cgroupDriver", "cgroupRoot", "cgroupsPerQOS", "kubeletCgroups", "systemCgroups", "kubeReserved", "systemReserved",
		"kubeReservedCgroup", "systemReservedCgroup", "enforceNodeAllocatable", "qosReserved", "cpuCFSQuota", "cpuCFSQuotaPeriod",
		"memorySwap", "memoryThrottlingFactor", "memoryReservationPolicy", "singleProcessOOMKill", "failSwapOn", "failCgroupV1":
		return cgroups
	case "cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "memoryManagerPolicy", "reservedMemory",
		"reservedSystemCPUs", "topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope":
		return deviceAlignment
	}
	return otherGroupOf(field)
}

func otherGroupOf(field string) group {
	switch field {
	case "evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim", "evictionMaxPodGracePeriod",
		"evictionPressureTransitionPeriod", "mergeDefaultEvictionSettings", "kernelMemcgNotification", "imageMinimumGCAge",
		"imageMaximumGCAge", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "localStorageCapacityIsolation":
		return eviction
	case "containerRuntimeEndpoint", "imageServiceEndpoint", "runtimeRequestTimeout":
		return runtimeCalls
	case "serializeImagePulls", "maxParallelImagePulls", "registryPullQPS", "registryBurst", "imagePullCredentialsVerificationPolicy",
		"preloadedImagesVerificationAllowlist":
		return images
	case "containerLogMaxSize", "containerLogMaxFiles", "containerLogMaxWorkers", "containerLogMonitorInterval", "podLogsDir":
		return containerLogs
	case "seccompDefault", "allowedUnsafeSysctls", "defaultPodSysctls", "userNamespaces":
		return podSecurity
	case "protectKernelDefaults", "makeIPTablesUtilChains", "iptablesMasqueradeBit", "iptablesDropBit", "hairpinMode", "oomScoreAdj",
		"maxOpenFiles":
		return hostSettings
	case "enableControllerAttachDetach", "volumePluginDir", "volumeStatsAggPeriod", "configMapAndSecretChangeDetectionStrategy":
		return volumes
	case "shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority":
		return shutdown
	case "logging", "tracing", "enableContentionProfiling", "showHiddenMetricsForVersion":
		return observation
	case "featureGates":
		return features
	}
	return unknown
}
