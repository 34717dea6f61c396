package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// defaultMaxPods is how many pods a node takes unless it is told otherwise.
const defaultMaxPods = 110

// SetDefaults fills every field that is empty with the default of the kubelet, as
// the reference of KubeletConfiguration v1beta1 states them
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1). After it,
// evictionHard holds the thresholds in force: all defaults if it was not set, the
// remaining ones too if mergeDefaultEvictionSettings says so, and else only what
// was set.
func SetDefaults(c *kubeletv1beta1.KubeletConfiguration) {
	defaultSources(c)
	defaultServer(c)
	defaultNode(c)
	defaultResources(c)
	defaultEviction(c)
	defaultRuntime(c)
	defaultFeatures(c)
}

func set[T comparable](field *T, v T) {
	var zero T
	if *field == zero {
		*field = v
	}
}

func setPointer[T any](field **T, v T) {
	if *field == nil {
		*field = &v
	}
}

func setDuration(field *metav1.Duration, d time.Duration) { set(&field.Duration, d) }

func defaultSources(c *kubeletv1beta1.KubeletConfiguration) {
	setDuration(&c.SyncFrequency, time.Minute)
	setDuration(&c.FileCheckFrequency, 20*time.Second)
	setDuration(&c.HTTPCheckFrequency, 20*time.Second)
	set(&c.ConfigMapAndSecretChangeDetectionStrategy, kubeletv1beta1.WatchChangeDetectionStrategy)
}

func defaultServer(c *kubeletv1beta1.KubeletConfiguration) {
	setPointer(&c.EnableServer, true)
	set(&c.Address, "0.0.0.0")
	set(&c.Port, 10250)
	setPointer(&c.HealthzPort, 10248)
	set(&c.HealthzBindAddress, "127.0.0.1")
	setPointer(&c.EnableDebuggingHandlers, true)
	setPointer(&c.EnableSystemLogHandler, true)
	setPointer(&c.EnableSystemLogQuery, false)
	setPointer(&c.EnableProfilingHandler, true)
	setPointer(&c.EnableDebugFlagsHandler, true)
	setDuration(&c.StreamingConnectionIdleTimeout, 4*time.Hour)
	setPointer(&c.Authentication.Anonymous.Enabled, false)
	setPointer(&c.Authentication.Webhook.Enabled, true)
	setDuration(&c.Authentication.Webhook.CacheTTL, 2*time.Minute)
	set(&c.Authorization.Mode, kubeletv1beta1.KubeletAuthorizationModeWebhook)
	setDuration(&c.Authorization.Webhook.CacheAuthorizedTTL, 5*time.Minute)
	setDuration(&c.Authorization.Webhook.CacheUnauthorizedTTL, 30*time.Second)
}

// defaultNode: a report period follows an update period that the file sets.
func defaultNode(c *kubeletv1beta1.KubeletConfiguration) {
	if c.NodeStatusUpdateFrequency.Duration != 0 {
		set(&c.NodeStatusReportFrequency, c.NodeStatusUpdateFrequency)
	}
	setDuration(&c.NodeStatusReportFrequency, 5*time.Minute)
	setDuration(&c.NodeStatusUpdateFrequency, 10*time.Second)
	set(&c.NodeLeaseDurationSeconds, 40)
	setPointer(&c.NodeStatusMaxImages, 50)
	setPointer(&c.RegisterNode, true)
	set(&c.MaxPods, defaultMaxPods)
	set(&c.ContentType, "application/vnd.kubernetes.protobuf")
	setPointer(&c.KubeAPIQPS, 50)
	set(&c.KubeAPIBurst, 100)
	setPointer(&c.EventRecordQPS, 50)
	set(&c.EventBurst, 100)
	setPointer(&c.ResolverConfig, "/etc/resolv.conf")
	set(&c.HairpinMode, kubeletv1beta1.PromiscuousBridge)
}

func defaultResources(c *kubeletv1beta1.KubeletConfiguration) {
	setPointer(&c.CgroupsPerQOS, true)
	set(&c.CgroupDriver, "cgroupfs")
	if c.PodPidsLimit == nil || *c.PodPidsLimit < 0 {
		c.PodPidsLimit = new(int64(-1)) // any negative number is "as many as the node"
	}
	setPointer(&c.CPUCFSQuota, true)
	setPointer(&c.CPUCFSQuotaPeriod, metav1.Duration{Duration: 100 * time.Millisecond})
	set(&c.CPUManagerPolicy, "none")
	setDuration(&c.CPUManagerReconcilePeriod, 10*time.Second)
	set(&c.MemoryManagerPolicy, kubeletv1beta1.NoneMemoryManagerPolicy)
	set(&c.TopologyManagerPolicy, kubeletv1beta1.NoneTopologyManagerPolicy)
	set(&c.TopologyManagerScope, kubeletv1beta1.ContainerTopologyManagerScope)
	set(&c.MemoryReservationPolicy, kubeletv1beta1.NoneMemoryReservationPolicy)
	setPointer(&c.FailSwapOn, true)
	setPointer(&c.FailCgroupV1, true)
	setPointer(&c.OOMScoreAdj, -999)
	set(&c.MaxOpenFiles, 1000000)
	if c.EnforceNodeAllocatable == nil {
		c.EnforceNodeAllocatable = []string{"pods"}
	}
	setPointer(&c.LocalStorageCapacityIsolation, true)
}

func defaultEviction(c *kubeletv1beta1.KubeletConfiguration) {
	c.EvictionHard = hardThresholds(c)
	setDuration(&c.EvictionPressureTransitionPeriod, 5*time.Minute)
	setPointer(&c.MergeDefaultEvictionSettings, false)
	setDuration(&c.ImageMinimumGCAge, 2*time.Minute)
	setPointer(&c.ImageGCHighThresholdPercent, 85)
	setPointer(&c.ImageGCLowThresholdPercent, 80)
}

// defaultRuntime: images are pulled one by one unless the file allows several.
func defaultRuntime(c *kubeletv1beta1.KubeletConfiguration) {
	set(&c.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	setDuration(&c.RuntimeRequestTimeout, 2*time.Minute)
	parallel := c.MaxParallelImagePulls != nil && *c.MaxParallelImagePulls > 1
	setPointer(&c.SerializeImagePulls, !parallel)
	setPointer(&c.RegistryPullQPS, 5)
	set(&c.RegistryBurst, 10)
	set(&c.ImagePullCredentialsVerificationPolicy, kubeletv1beta1.NeverVerifyPreloadedImages)
	set(&c.ContainerLogMaxSize, "10Mi")
	setPointer(&c.ContainerLogMaxFiles, 5)
	setPointer(&c.ContainerLogMaxWorkers, 1)
	setPointer(&c.ContainerLogMonitorInterval, metav1.Duration{Duration: 10 * time.Second})
	set(&c.PodLogsDir, "/var/log/pods")
	setPointer(&c.CrashLoopBackOff.MaxContainerRestartPeriod, metav1.Duration{Duration: 5 * time.Minute})
}

func defaultFeatures(c *kubeletv1beta1.KubeletConfiguration) {
	set(&c.Logging.Format, "text")
	if c.Logging.FlushFrequency.Duration.Duration == 0 {
		c.Logging.FlushFrequency.Duration.Duration, c.Logging.FlushFrequency.SerializeAsString = 5*time.Second, true
	}
	setPointer(&c.SeccompDefault, false)
	setPointer(&c.MakeIPTablesUtilChains, true)
	setPointer(&c.IPTablesMasqueradeBit, 14)
	setPointer(&c.IPTablesDropBit, 15)
	setPointer(&c.EnableControllerAttachDetach, true)
	set(&c.VolumePluginDir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
	setDuration(&c.VolumeStatsAggPeriod, time.Minute)
}
