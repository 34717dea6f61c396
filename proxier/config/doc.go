// Package config reads kube-proxy's configuration file: a KubeProxyConfiguration of
// kubeproxy.config.k8s.io/v1alpha1, with the defaults of kube-proxy for what nodekit
// honours, and a Problem with its line for each field that is unknown or has no
// effect here.
//
// It is not for flags, nor for finding out what the host can do.
//
//	cfg, err := config.Load("/etc/kubernetes/kube-proxy.yaml")
//	...
//	for _, p := range cfg.Problems {
//		log.Warn("configuration", "problem", p)
//	}
//
// Functions are safe for concurrent use. The file must be readable.
package config
