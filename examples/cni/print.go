package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/nodekit-go/nodekit/cni"
)

// print writes a value as JSON or the rows of a table.
func (p *program) print(value any, rows [][]string) error {
	if p.output == "json" {
		e := json.NewEncoder(p.out)
		e.SetIndent("", "  ")
		return e.Encode(value)
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

func (p *program) printWord(word string) error {
	key := p.attachment().Key()
	return p.print(map[string]string{"containerID": key.ContainerID, "ifname": key.IfName, "state": word},
		[][]string{{key.String(), word}})
}

// printResult prints the result of the plugins; in JSON as they wrote it.
func (p *program) printResult(network *cni.Network, r *cni.Result) error {
	rows := [][]string{{"ADDRESS", "GATEWAY", "INTERFACE", "NETWORK"}}
	for _, ip := range r.IPs {
		gateway, iface := "-", p.ifname
		if ip.Gateway.IsValid() {
			gateway = ip.Gateway.String()
		}
		if ip.Interface >= 0 {
			iface = r.Interfaces[ip.Interface].Name
		}
		rows = append(rows, []string{ip.Address.String(), gateway, iface, network.Name})
	}
	for _, name := range r.Unclaimed {
		rows = append(rows, []string{"no plugin takes " + name})
	}
	return p.print(r.Raw, rows)
}

// state is what "status -o json" prints.
type state struct {
	Ready    bool       `json:"ready"`
	Reason   string     `json:"reason,omitempty"`
	Network  string     `json:"network,omitempty"`
	Version  string     `json:"cniVersion,omitempty"`
	File     string     `json:"file,omitempty"`
	Programs []programs `json:"programs,omitempty"`
	Attached []attached `json:"attachments,omitempty"`
}

type programs struct {
	Name string `json:"name"`
	Role string `json:"role"`
	Path string `json:"path,omitempty"`
}

type attached struct {
	cni.Key
	Network string `json:"network"`
	NetNS   string `json:"netns,omitempty"`
	State   string `json:"state"`
}

func (p *program) printStatus(network *cni.Network, all []cni.Recorded, notReady error) error {
	s := state{Ready: notReady == nil, Attached: describe(all)}
	rows := [][]string{{"READY", "yes"}}
	if notReady != nil {
		s.Reason = notReady.Error()
		rows = [][]string{{"READY", "no"}}
	}
	if network != nil {
		s.Network, s.Version, s.File = network.Name, network.Version, network.File
		rows = append(rows, []string{"NETWORK", network.String()}, []string{"FILE", network.File})
		for _, one := range p.invoker.Programs(network) {
			s.Programs = append(s.Programs, programs{one.Name, one.Role, one.Path})
			path := one.Path
			if path == "" {
				path = "missing"
			}
			rows = append(rows, []string{strings.ToUpper(one.Role), one.Name, path})
		}
	}
	return p.print(s, append(rows, table(s.Attached)...))
}

func (p *program) printRemoved(all []cni.Recorded) error {
	removed := describe(all)
	rows := table(removed)
	if len(removed) == 0 {
		rows = [][]string{{"nothing to remove"}}
	}
	return p.print(map[string]any{"removed": removed}, rows)
}

func describe(all []cni.Recorded) []attached {
	list := []attached{}
	for _, r := range all {
		list = append(list, attached{Key: r.Key, Network: r.Network, NetNS: r.NetNS, State: r.State.String()})
	}
	return list
}

func table(all []attached) [][]string {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"ATTACHMENT", "NETWORK", "STATE", "NETNS"}}
	for _, a := range all {
		rows = append(rows, []string{a.String(), a.Network, a.State, a.NetNS})
	}
	return rows
}
