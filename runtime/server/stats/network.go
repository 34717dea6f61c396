package stats

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// link is what a network interface has received and sent.
type link struct {
	name                                    string
	rxBytes, rxPackets, rxErrors, rxDropped uint64
	txBytes, txPackets, txErrors, txDropped uint64
}

// ownLinks are the interfaces that this process sees, linksOf those that a process sees.
func ownLinks() ([]link, error) { return readLinks("/proc/self/net/dev") }

func linksOf(pid int) ([]link, error) {
	return readLinks(filepath.Join("/proc", strconv.Itoa(pid), "net/dev"))
}

func readLinks(name string) ([]link, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read what a network has carried: %w", err)
	}
	return parseLinks(raw), nil
}

// parseLinks reads a file in the format of /proc/net/dev, proc_pid_net(5): after the name
// and a colon, eight figures of what was received, then eight of what was sent. Interfaces
// that only join others are left out, as kubelets do: loopback and the outer ends of pods'.
func parseLinks(raw []byte) []link {
	const figures = 16
	var out []link
	for line := range bytes.Lines(raw) {
		name, rest, ok := strings.Cut(string(line), ":")
		name = strings.TrimSpace(name)
		fields := strings.Fields(rest)
		if !ok || len(fields) < figures || inner(name) {
			continue
		}
		var n [figures]uint64
		wrong := false
		for i := range n {
			var err error
			n[i], err = strconv.ParseUint(fields[i], 10, 64)
			wrong = wrong || err != nil
		}
		if wrong {
			continue
		}
		out = append(out, link{
			name: name, rxBytes: n[0], rxPackets: n[1], rxErrors: n[2], rxDropped: n[3],
			txBytes: n[8], txPackets: n[9], txErrors: n[10], txDropped: n[11],
		})
	}
	return out
}

// inner reports whether an interface is left out.
func inner(name string) bool {
	for _, prefix := range []string{"lo", "veth", "docker", "nerdctl"} {
		if strings.HasPrefix(strings.ToLower(name), prefix) {
			return true
		}
	}
	return false
}

// links are the interfaces of a pod: those that a process of its sandbox sees; nil if there
// is none.
func (c *Collector) links(p *podReading) []link {
	if p.sandbox == "" {
		return nil
	}
	pids, err := c.cfg.Groups.Processes(p.sandbox)
	if err != nil || len(pids) == 0 {
		return nil // it has just ended
	}
	links, err := linksOf(pids[0])
	if err != nil {
		return nil
	}
	return links
}
