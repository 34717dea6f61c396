package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// maxNameservers is how many servers a pod's resolv.conf can name
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service).
const maxNameservers = 3

// validate checks a configuration with its defaults. It covers the fields that a
// standalone node starts with.
func validate(c *kubeletv1beta1.KubeletConfiguration) []Problem {
	var v validator
	v.endpoint("containerRuntimeEndpoint", c.ContainerRuntimeEndpoint)
	if c.ImageServiceEndpoint != "" {
		v.endpoint("imageServiceEndpoint", c.ImageServiceEndpoint)
	}
	v.absolute("staticPodPath", c.StaticPodPath)
	v.absolute("podLogsDir", c.PodLogsDir)
	v.absolute("cgroupRoot", c.CgroupRoot)
	v.port("healthzPort", *c.HealthzPort)
	v.port("port", c.Port)
	v.port("readOnlyPort", c.ReadOnlyPort)
	v.address("healthzBindAddress", c.HealthzBindAddress)
	v.address("address", c.Address)
	v.positive("fileCheckFrequency", c.FileCheckFrequency.Duration)
	v.positive("httpCheckFrequency", c.HTTPCheckFrequency.Duration)
	v.positive("syncFrequency", c.SyncFrequency.Duration)
	v.positive("runtimeRequestTimeout", c.RuntimeRequestTimeout.Duration)
	for i, server := range c.ClusterDNS {
		v.address(fmt.Sprintf("clusterDNS[%d]", i), server)
	}
	if len(c.ClusterDNS) > maxNameservers {
		v.warn("clusterDNS", "names %d servers; a pod uses the first %d", len(c.ClusterDNS), maxNameservers)
	}
	if c.MaxPods < 0 {
		v.fail("maxPods", "is %d, must not be negative", c.MaxPods)
	}
	return v.problems
}

type validator struct{ problems []Problem }

func (v *validator) fail(field, format string, args ...any) {
	v.problems = append(v.problems, Problem{Field: field, Severity: Error, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) warn(field, format string, args ...any) {
	v.problems = append(v.problems, Problem{Field: field, Severity: Warning, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) endpoint(field, value string) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "unix" || u.Path == "" || u.Host != "" {
		v.fail(field, "is %q, must be a socket like unix:///run/containerd/containerd.sock", value)
	}
}

func (v *validator) absolute(field, value string) {
	if value != "" && !filepath.IsAbs(value) {
		v.fail(field, "is %q, must be an absolute path", value)
	}
}

func (v *validator) port(field string, value int32) {
	if value < 0 || value > 65535 {
		v.fail(field, "is %d, must be between 0 and 65535", value)
	}
}

func (v *validator) address(field, value string) {
	if _, err := netip.ParseAddr(value); err != nil {
		v.fail(field, "is %q, must be an IP address", value)
	}
}

func (v *validator) positive(field string, value time.Duration) {
	if value < 0 {
		v.fail(field, "is %s, must be positive", value)
	}
}
