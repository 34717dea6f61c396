// Package config loads the kubelet's configuration file, KubeletConfiguration
// v1beta1, and says which of its fields the program that reads it will not act
// on, with line numbers.
//
//	cfg, problems, err := config.LoadFile("/var/lib/kubelet/config.yaml", []string{"staticPodPath", "healthzPort"})
//
// LoadFiles merges drop-in files besides, LoadSources also single settings, such as
// flags; Reserved makes of a configuration what allocatable.Compute subtracts. The type
// is that of k8s.io/kubelet/config/v1beta1, so that any file written for a kubelet can
// be read. The package knows no command line and no feature gates.
//
// Its functions are pure but for LoadFile, LoadFiles and LoadSources, which read files;
// all may be called from any goroutine.
package config
