package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// CheckpointFile is the name of the file in the directory of the sockets in which who
// has what is kept, the kubelet's (https://kubernetes.io/docs/reference/node/kubelet-files/).
const CheckpointFile = "kubelet_internal_checkpoint"

// errChecksum says that a checkpoint is not as it was written.
var errChecksum = errors.New("the checksum is not that of the content")

// checkpoint is the file. The names of the fields are part of its format, and an empty
// list is another thing to the checksum than one that is null.
type checkpoint struct {
	Data     checkpointData
	Checksum uint64
}

type checkpointData struct {
	PodDeviceEntries  []checkpointEntry
	RegisteredDevices map[string][]string
}

type checkpointEntry struct {
	PodUID, ContainerName, ResourceName string

	DeviceIDs map[int64][]string
	// AllocResp is the answer of the plugin, as protobuf.
	AllocResp []byte
}

// parseCheckpoint reads a checkpoint. With errChecksum the rest of the result is what
// the file has nevertheless.
func parseCheckpoint(raw []byte) (checkpointData, error) {
	var c checkpoint
	if err := json.Unmarshal(raw, &c); err != nil {
		return checkpointData{}, fmt.Errorf("parse the checkpoint: %w", err)
	}
	if got := c.Data.checksum(); got != c.Checksum {
		return c.Data, fmt.Errorf("%w: %d in the file, %d computed", errChecksum, c.Checksum, got)
	}
	return c.Data, nil
}

// format returns the file.
func (d checkpointData) format() ([]byte, error) {
	raw, err := json.Marshal(checkpoint{Data: d, Checksum: d.checksum()})
	if err != nil {
		return nil, fmt.Errorf("format the checkpoint: %w", err)
	}
	return raw, nil
}

// entries returns what the ledger has as a checkpoint keeps it, in order.
func (l *ledger) entries() ([]checkpointEntry, error) {
	var out []checkpointEntry
	for o, s := range l.all() {
		if s.answer == nil {
			continue // the pod does not start before there is one
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.answer)
		if err != nil {
			return nil, fmt.Errorf("encode the answer of the plugin of %s: %w", o.resource, err)
		}
		out = append(out, checkpointEntry{PodUID: string(o.pod), ContainerName: o.container, ResourceName: o.resource, DeviceIDs: s.places, AllocResp: raw})
	}
	slices.SortFunc(out, func(a, b checkpointEntry) int {
		return strings.Compare(a.PodUID+"\x00"+a.ContainerName+"\x00"+a.ResourceName, b.PodUID+"\x00"+b.ContainerName+"\x00"+b.ResourceName)
	})
	return out, nil
}

// restore fills a ledger. Entries that make no sense are left out and named; of two for
// the same owner the last counts, as in the kubelet.
func (l *ledger) restore(entries []checkpointEntry) error {
	var errs []error
	for _, e := range entries {
		answer := &deviceapi.ContainerAllocateResponse{}
		if err := proto.Unmarshal(e.AllocResp, answer); err != nil {
			errs = append(errs, fmt.Errorf("devices of %s of container %s of pod %s: %w", e.ResourceName, e.ContainerName, e.PodUID, err))
			continue
		}
		l.put(owner{types.UID(e.PodUID), e.ContainerName, e.ResourceName}, &share{places: e.DeviceIDs, answer: answer})
	}
	return errors.Join(errs...)
}

// checksum is that of the kubelet: 32-bit FNV-1a over what the printer go-spew makes of
// the data (k8s.io/utils/dump.ForHash). The types are called as they are there.
func (d checkpointData) checksum() uint64 {
	p := &printer{}
	p.text("(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)")
	p.list(d.PodDeviceEntries == nil, len(d.PodDeviceEntries), func(i int) {
		e := &d.PodDeviceEntries[i]
		p.text("{PodUID:(string)", e.PodUID, " ContainerName:(string)", e.ContainerName, " ResourceName:(string)", e.ResourceName, " DeviceIDs:(checkpoint.DevicesPerNUMA)")
		nodes := slices.Sorted(maps.Keys(e.DeviceIDs))
		p.dict(e.DeviceIDs == nil, len(nodes), func(i int) {
			p.number(nodes[i])
			p.text(":")
			p.strings(e.DeviceIDs[nodes[i]])
		})
		p.text(" AllocResp:([]uint8)")
		p.list(e.AllocResp == nil, len(e.AllocResp), func(i int) { p.number(int64(e.AllocResp[i])) })
		p.text("}")
	})
	p.text(" RegisteredDevices:(map[string][]string)")
	names := slices.Sorted(maps.Keys(d.RegisteredDevices))
	p.dict(d.RegisteredDevices == nil, len(names), func(i int) {
		p.text(names[i], ":")
		p.strings(d.RegisteredDevices[names[i]])
	})
	p.text("}")
	return p.sum()
}
