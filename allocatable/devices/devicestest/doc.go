// Package devicestest is a device plugin that behaves, for tests: it lists the devices it
// is told to, hands them out as variables, mounts and device files, and can be told to
// fail, to hang and to die.
//
//	p, err := devicestest.Start(ctx, devicestest.Config{Dir: dir, Resource: "example.com/gpu", Devices: devices})
//	defer p.Stop()
//	p.List(devicestest.Unhealthy("gpu-0"), devicestest.Healthy("gpu-1"))
//
// With Start it registers on the socket of an agent, see Config; a Plugin from New is a
// deviceplugin server that a test serves as it likes. All methods may be called by many
// goroutines. No privileges are needed.
package devicestest
