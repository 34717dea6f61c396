package csitest

import (
	"context"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// identity is the identity service.
type identity struct {
	csiapi.UnimplementedIdentityServer
	name string
}

// GetPluginInfo says who the driver is.
func (i identity) GetPluginInfo(context.Context, *csiapi.GetPluginInfoRequest) (*csiapi.GetPluginInfoResponse, error) {
	return &csiapi.GetPluginInfoResponse{Name: i.name, VendorVersion: "test"}, nil
}

// Probe says that the driver is fine.
func (identity) Probe(context.Context, *csiapi.ProbeRequest) (*csiapi.ProbeResponse, error) {
	return &csiapi.ProbeResponse{}, nil
}

// registration is what a registrar beside a driver serves.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	driver *Driver
}

// GetInfo says who the driver is, and where.
func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	d := r.driver
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: d.Name(), Endpoint: d.Endpoint(), SupportedVersions: d.Versions()}, nil
}

// NotifyRegistrationStatus is told what became of it.
func (r *registration) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	n := r.driver.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.registered, n.refused = s.GetPluginRegistered(), s.GetError()
	return &registerapi.RegistrationStatusResponse{}, nil
}
