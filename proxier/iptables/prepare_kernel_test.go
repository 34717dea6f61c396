//go:build linux

package iptables

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// readOnlySys is a host whose kernel parameters cannot be written.
type readOnlySys struct{ host }

func (h readOnlySys) set(name string) error {
	if is, err := h.isSet(name); is || err != nil {
		return err
	}
	return fs.ErrPermission
}

// A process with privilege prepares the node, and one without serves node ports at
// 127.0.0.1.
func TestKernelPrepareServesALaterProcess(t *testing.T) {
	onKernel(t, func(t *testing.T, v Variant) {
		t.Helper()
		m := newMachine(t, v)
		web := with(m.web, func(p *proxier.ServicePort) { p.Frontends = append(p.Frontends, nodePort(30080)) })
		var told notes
		later := m.backend(t, Config{LocalhostNodePorts: true, Degraded: told.take})
		later.host = readOnlySys{later.host}
		mustReset(t, later, web)
		m.served(t)
		if !errors.Is(told.last, fs.ErrPermission) {
			t.Errorf("without preparation, told %v", told.last)
		}
		m.run(t, "iptables -t filter -F KUBE-FIREWALL")
		for range 2 {
			if err := m.backend(t, Config{LocalhostNodePorts: true}).Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if guards := strings.Count(m.run(t, "iptables -t filter -S KUBE-FIREWALL"), "block incoming localnet connections"); guards != 1 {
			t.Errorf("%d guards, want 1", guards)
		}
		mustReset(t, later, web)
		if told.last != nil {
			t.Errorf("after preparation, told %v", told.last)
		}
		m.awaitDial(t, "127.0.0.1:30080")
		m.unchanged(t, later, web)
	})
}
