package cni

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordNames(t *testing.T) {
	tests := []struct {
		name    string
		key     Key
		network string
		ok      bool
	}{
		{"c1@eth0@pods", Key{"c1", "eth0"}, "pods", true},
		{"c1@a@b@pods", Key{"c1", "a@b"}, "pods", true},
		{"@lock", Key{}, "", false},
		{"c1@pods", Key{}, "", false},
		{"c1@eth0@", Key{}, "", false},
		{"@eth0@pods", Key{}, "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			key, network, ok := parseName(test.name)
			if key != test.key || network != test.network || ok != test.ok {
				t.Errorf("got %v, %q, %v", key, network, ok)
			}
			if ok && recordName(key, network) != test.name {
				t.Errorf("back it is %q", recordName(key, network))
			}
		})
	}
}

func anIntent() intent {
	return intent{
		Version: recordVersion, Network: "pods", Attachment: Key{"c1", "eth0"}, NetNS: "/run/netns/x", NetNSID: "4:5",
		Args: PodArgs("a", "b", "c", "d"), Capabilities: map[string]json.RawMessage{"mac": json.RawMessage(`"x"`)},
		Config: json.RawMessage(conf("pods")),
	}
}

func FuzzRecord(f *testing.F) {
	first, err := newPage(anIntent())
	if err != nil {
		f.Fatal(err)
	}
	data, offset := first.data, first.end
	result, _, err := line(first.sum, json.RawMessage(`{"cniVersion":"1.0.0"}`))
	if err != nil {
		f.Fatal(err)
	}
	whole := append(data[:offset:offset], result...)
	f.Add(data)
	f.Add(whole)
	f.Add(whole[:offset+4])
	f.Add([]byte("00000000 \n00000000 \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}
		again, err := newPage(r.intent)
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseRecord(again.data)
		if err != nil {
			t.Fatalf("written again it is damaged: %v", err)
		}
		if back.result != nil || back.Attachment != r.Attachment {
			t.Errorf("written again it is %+v, want %+v", back, r)
		}
	})
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.0.0","interfaces":[{"name":"a"},null],"ips":[{"address":"::1/8","interface":0}],"routes":[{"dst":"0.0.0.0/0"}]}`))
	f.Add([]byte(`{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.0.0.1/8","gateway":"10.0.0.2"}],"dns":{"nameservers":["x"]}}`))
	f.Add([]byte(`{"cniVersion":"1.1.0","ips":[{"address":"::ffff:1.2.3.4/120","interface":-1}]}`))
	f.Add([]byte(`{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.1/8","routes":[null]}}`))
	f.Add([]byte(`{"cniVersion":"0.4.0","interfaces":[null],"ips":[null],"routes":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseResult(data)
		if err != nil {
			return
		}
		for _, addr := range r.Addrs() {
			if !addr.IsValid() {
				t.Errorf("an address of %+v is not valid", r)
			}
		}
	})
}

func TestResultKeepsTheOrderOfFamilies(t *testing.T) {
	r, err := parseResult([]byte(`{"cniVersion":"1.1.0",
		"interfaces":[{"name":"cni0","mac":"02:00:00:00:00:01"},{"name":"eth0","mtu":1400,"sandbox":"/run/netns/x"}],
		"ips":[{"address":"fd00::2/64","gateway":"fd00::1","interface":1},{"address":"10.0.0.1/8","interface":0},{"address":"10.0.0.2/8","interface":1},{"address":"10.0.0.9/8"}],
		"routes":[{"dst":"::/0","gw":"fd00::1"},{"dst":"0.0.0.0/0"}],"dns":{"nameservers":["10.0.0.53"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var addrs, routes []string
	for _, a := range r.Addrs() {
		addrs = append(addrs, a.String())
	}
	for _, route := range r.Routes {
		routes = append(routes, strings.TrimSuffix(route.Dst.String()+" "+route.Gateway.String(), " invalid IP"))
	}
	if diff := cmp.Diff([]string{"fd00::2", "10.0.0.2", "10.0.0.9"}, addrs); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"::/0 fd00::1", "0.0.0.0/0"}, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	want := []Interface{{Name: "cni0", MAC: "02:00:00:00:00:01"}, {Name: "eth0", MTU: 1400, Sandbox: "/run/netns/x"}}
	if diff := cmp.Diff(want, r.Interfaces); diff != "" || r.DNS.Nameservers[0] != "10.0.0.53" {
		t.Errorf("DNS %v, interfaces (-want +got):\n%s", r.DNS, diff)
	}
}
