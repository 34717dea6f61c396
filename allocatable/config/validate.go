package config

import (
	"crypto/tls"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// maxNameservers is how many servers a pod's resolv.conf can name
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service).
const maxNameservers = 3

// validate checks a configuration with its defaults. An Error is what a kubelet
// does not start with.
func validate(c *kubeletv1beta1.KubeletConfiguration) []Problem {
	var v validator
	v.sources(c)
	v.endpoints(c)
	v.apiClient(c)
	v.node(c)
	v.resources(c)
	v.reservedMemory(c)
	v.eviction(c)
	v.images(c)
	v.logs(c)
	v.host(c)
	v.shutdown(c)
	return v.problems
}

func (v *validator) sources(c *kubeletv1beta1.KubeletConfiguration) {
	v.absolute("staticPodPath", c.StaticPodPath)
	v.positive("fileCheckFrequency", c.FileCheckFrequency.Duration)
	v.positive("httpCheckFrequency", c.HTTPCheckFrequency.Duration)
	v.positive("syncFrequency", c.SyncFrequency.Duration)
	if c.RunOnce {
		v.fail("runOnce", "is a mode that the kubelet no longer has")
	}
	v.oneOf("configMapAndSecretChangeDetectionStrategy", string(c.ConfigMapAndSecretChangeDetectionStrategy), "Get", "Cache", "Watch")
}

func (v *validator) endpoints(c *kubeletv1beta1.KubeletConfiguration) {
	v.port("healthzPort", *c.HealthzPort)
	v.port("port", c.Port)
	v.port("readOnlyPort", c.ReadOnlyPort)
	v.address("healthzBindAddress", c.HealthzBindAddress)
	v.address("address", c.Address)
	v.positive("streamingConnectionIdleTimeout", c.StreamingConnectionIdleTimeout.Duration)
	v.oneOf("authorization.mode", string(c.Authorization.Mode), "AlwaysAllow", "Webhook")
	v.oneOf("tlsMinVersion", c.TLSMinVersion, "", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
	v.cipherSuites(c)
	for i, curve := range c.TLSCurvePreferences {
		v.between(fmt.Sprintf("tlsCurvePreferences[%d]", i), int64(curve), 1, math.MaxUint16)
	}
	if (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == "") {
		v.fail("tlsCertFile", "and tlsPrivateKeyFile must be set together")
	}
	if *c.EnableSystemLogQuery && !*c.EnableSystemLogHandler {
		v.fail("enableSystemLogQuery", "needs enableSystemLogHandler")
	}
}

// cipherSuites checks the names of the suites, which are those of crypto/tls and two older
// ones.
func (v *validator) cipherSuites(c *kubeletv1beta1.KubeletConfiguration) {
	known := []string{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"}
	for _, s := range tls.CipherSuites() {
		known = append(known, s.Name)
	}
	var insecure []string
	for _, s := range tls.InsecureCipherSuites() {
		insecure = append(insecure, s.Name)
	}
	for i, name := range c.TLSCipherSuites {
		field := fmt.Sprintf("tlsCipherSuites[%d]", i)
		switch {
		case slices.Contains(insecure, name):
			v.warn(field, "%s is not secure", name)
		case !slices.Contains(known, name):
			v.fail(field, "is %q, which is no cipher suite of TLS that is known here", name)
		}
	}
	if c.TLSMinVersion == "VersionTLS13" && len(c.TLSCipherSuites) > 0 {
		v.warn("tlsCipherSuites", "has no effect with tlsMinVersion VersionTLS13: the suites of TLS 1.3 are not chosen")
	}
}

func (v *validator) apiClient(c *kubeletv1beta1.KubeletConfiguration) {
	v.notNegative("eventBurst", int64(c.EventBurst))
	v.notNegative("eventRecordQPS", int64(*c.EventRecordQPS))
	v.notNegative("kubeAPIBurst", int64(c.KubeAPIBurst))
	v.notNegative("kubeAPIQPS", int64(*c.KubeAPIQPS))
}

func (v *validator) node(c *kubeletv1beta1.KubeletConfiguration) {
	v.notNegative("maxPods", int64(c.MaxPods))
	v.notNegative("podsPerCore", int64(c.PodsPerCore))
	v.notNegative("nodeLeaseDurationSeconds", int64(c.NodeLeaseDurationSeconds))
	v.positive("nodeStatusUpdateFrequency", c.NodeStatusUpdateFrequency.Duration)
	v.positive("nodeStatusReportFrequency", c.NodeStatusReportFrequency.Duration)
	if *c.NodeStatusMaxImages < -1 {
		v.fail("nodeStatusMaxImages", "is %d, must be -1 for all, or a number", *c.NodeStatusMaxImages)
	}
	for i, taint := range c.RegisterWithTaints {
		field := fmt.Sprintf("registerWithTaints[%d]", i)
		if taint.Key == "" {
			v.fail(field, "has no key")
		}
		v.oneOf(field+".effect", string(taint.Effect), "NoSchedule", "PreferNoSchedule", "NoExecute")
		if taint.TimeAdded != nil {
			v.fail(field+".timeAdded", "must not be set")
		}
	}
	for i, server := range c.ClusterDNS {
		v.address(fmt.Sprintf("clusterDNS[%d]", i), server)
	}
	if len(c.ClusterDNS) > maxNameservers {
		v.warn("clusterDNS", "names %d servers; a pod uses the first %d", len(c.ClusterDNS), maxNameservers)
	}
	if p := c.CrashLoopBackOff.MaxContainerRestartPeriod; p.Duration < time.Second || p.Duration > 5*time.Minute {
		v.fail("crashLoopBackOff.maxContainerRestartPeriod", "is %s, must be between 1s and 5m", p.Duration)
	}
}

func (v *validator) host(c *kubeletv1beta1.KubeletConfiguration) {
	v.notNegative("maxOpenFiles", c.MaxOpenFiles)
	v.between("oomScoreAdj", int64(*c.OOMScoreAdj), -1000, 1000)
	v.between("iptablesMasqueradeBit", int64(*c.IPTablesMasqueradeBit), 0, 31)
	v.between("iptablesDropBit", int64(*c.IPTablesDropBit), 0, 31)
	v.oneOf("hairpinMode", c.HairpinMode, kubeletv1beta1.PromiscuousBridge, kubeletv1beta1.HairpinVeth, kubeletv1beta1.HairpinNone)
	v.absolute("volumePluginDir", c.VolumePluginDir)
	v.positive("runtimeRequestTimeout", c.RuntimeRequestTimeout.Duration)
	v.endpoint("containerRuntimeEndpoint", c.ContainerRuntimeEndpoint)
	if c.ImageServiceEndpoint != "" {
		v.endpoint("imageServiceEndpoint", c.ImageServiceEndpoint)
	}
	if u := c.UserNamespaces; u != nil && u.IDsPerPod != nil && (*u.IDsPerPod <= 0 || *u.IDsPerPod%65536 != 0 || *u.IDsPerPod >= 1<<32) {
		v.fail("userNamespaces.idsPerPod", "is %d, must be a multiple of 65536 below 4294967296", *u.IDsPerPod)
	}
}

func (v *validator) shutdown(c *kubeletv1beta1.KubeletConfiguration) {
	all, critical := c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration
	v.wholeSecond("shutdownGracePeriod", all)
	v.wholeSecond("shutdownGracePeriodCriticalPods", critical)
	if critical > all {
		v.fail("shutdownGracePeriodCriticalPods", "is %s, must not be more than shutdownGracePeriod, %s", critical, all)
	}
	if len(c.ShutdownGracePeriodByPodPriority) > 0 && (all > 0 || critical > 0) {
		v.fail("shutdownGracePeriodByPodPriority", "and shutdownGracePeriod exclude each other")
	}
	for i, p := range c.ShutdownGracePeriodByPodPriority {
		v.notNegative(fmt.Sprintf("shutdownGracePeriodByPodPriority[%d].shutdownGracePeriodSeconds", i), p.ShutdownGracePeriodSeconds)
	}
}

type validator struct{ problems []Problem }

func (v *validator) fail(field, format string, args ...any) {
	v.problems = append(v.problems, Problem{Field: field, Severity: Error, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) warn(field, format string, args ...any) {
	v.problems = append(v.problems, Problem{Field: field, Severity: Warning, Message: fmt.Sprintf(format, args...)})
}

// endpoint takes a path for a socket, as the kubelet still does
// (parseEndpointWithFallbackProtocol of k8s.io/cri-client).
func (v *validator) endpoint(field, value string) {
	if full := withScheme(value); full != value {
		v.warn(field, "is %q, taken for %s; an address without a scheme is deprecated", value, full)
		return
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "unix" || u.Path == "" || u.Host != "" {
		v.fail(field, "is %q, must be a socket like unix:///run/containerd/containerd.sock", value)
	}
}

// withScheme returns the address of a socket of which only the path may be given.
func withScheme(endpoint string) string {
	if filepath.IsAbs(endpoint) {
		return "unix://" + endpoint
	}
	return endpoint
}

func (v *validator) absolute(field, value string) {
	if value != "" && !filepath.IsAbs(value) {
		v.fail(field, "is %q, must be an absolute path", value)
	}
}

func (v *validator) port(field string, value int32) { v.between(field, int64(value), 0, 65535) }

func (v *validator) between(field string, value, low, high int64) {
	if value < low || value > high {
		v.fail(field, "is %d, must be between %d and %d", value, low, high)
	}
}

func (v *validator) notNegative(field string, value int64) {
	if value < 0 {
		v.fail(field, "is %d, must not be negative", value)
	}
}

func (v *validator) oneOf(field, value string, known ...string) {
	if !slices.Contains(known, value) {
		known = slices.DeleteFunc(known, func(s string) bool { return s == "" })
		v.fail(field, "is %q, must be one of %s", value, strings.Join(known, ", "))
	}
}

func (v *validator) address(field, value string) {
	if _, err := netip.ParseAddr(value); err != nil {
		v.fail(field, "is %q, must be an IP address", value)
	}
}

// positive has no quarrel with 0, which has become the default.
func (v *validator) positive(field string, value time.Duration) {
	if value < 0 {
		v.fail(field, "is %s, must be positive", value)
	}
}

// wholeSecond lets 0 pass, which switches off.
func (v *validator) wholeSecond(field string, value time.Duration) {
	if value != 0 && value < time.Second {
		v.fail(field, "is %s, must be 0 or at least 1s", value)
	}
}
