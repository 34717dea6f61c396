package pluginwatch

import (
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// FuzzDescribe feeds what plugins may answer: whatever is accepted can be used as a
// name, a path and a list.
func FuzzDescribe(f *testing.F) {
	for _, info := range []*registerapi.PluginInfo{
		{Type: CSI, Name: "disk.example", Endpoint: "/csi/csi.sock", SupportedVersions: []string{"1.0.0"}},
		{Type: Devices, Name: "vendor.example/gpu"},
		{Type: CSI, Name: "..\x00/", Endpoint: "../../etc"},
		{},
	} {
		raw, err := proto.Marshal(info)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte{0x0a, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var info registerapi.PluginInfo
		if proto.Unmarshal(raw, &info) != nil {
			return
		}
		p, err := describe(&info, "/reg/a.sock")
		if err != nil {
			return
		}
		if p.Type == "" || p.Name == "" || !printable(p.Name) || !filepath.IsAbs(p.Endpoint) || p.Socket != "/reg/a.sock" || len(p.Versions) > maxVersions {
			t.Errorf("%+v was accepted", p)
		}
	})
}
