package csi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// TestRegister refuses drivers that cannot be used, with the reason for the driver.
func TestRegister(t *testing.T) {
	tests := []struct {
		name     string
		driver   csitest.Config
		change   func(d *csitest.Driver)
		as       string // another name
		endpoint string
		patience time.Duration // of who registers, 0: any
		want     string
	}{
		{name: "good", driver: csitest.Config{Versions: []string{"v1.0.0"}}},
		{name: "no ID", driver: csitest.Config{NodeID: strings.Repeat("x", 193)}, want: "an ID of 193 bytes"},
		{name: "negative number", driver: csitest.Config{MaxVolumes: -1}, want: "can attach -1 volumes"},
		{name: "old", driver: csitest.Config{Versions: []string{"0.3.0"}}, want: "speaks versions [0.3.0] of CSI"},
		{name: "no versions", driver: csitest.Config{Versions: []string{}}, want: "want a version 1"},
		{name: "new", driver: csitest.Config{Versions: []string{"2.0.0", "10.1"}}, want: "want a version 1"},
		{name: "name that leads away", as: "a/b", want: "cannot be the name of a driver"},
		{name: "relative socket", endpoint: "csi.sock", want: "want the absolute path of a socket"},
		{name: "nobody there", endpoint: "/nonexistent.sock", want: "NodeGetInfo of driver"},
		{name: "says no", change: func(d *csitest.Driver) {
			d.Inject("NodeGetInfo", csitest.Fail(codes.Internal, "not yet"), 1)
		}, want: "not yet"},
		{name: "cannot tell what it can", change: func(d *csitest.Driver) {
			d.Inject("NodeGetCapabilities", csitest.Fail(codes.Internal, "not yet"), 1)
		}, want: "NodeGetCapabilities of driver"},
		{name: "hangs", patience: 100 * time.Millisecond, change: func(d *csitest.Driver) { d.Inject("NodeGetInfo", csitest.Hang, 1) }, want: "DeadlineExceeded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{t: t, root: shortDir(t), table: &csitest.Table{}, server: newServer()}
			w.host = &fakeHost{table: w.table}
			w.startDriver(tt.driver)
			w.startProvider(Config{})
			name, endpoint := w.driver.Name(), w.driver.Endpoint()
			if tt.as != "" {
				name = tt.as
			}
			if tt.endpoint != "" {
				endpoint = tt.endpoint
			}
			if tt.change != nil {
				tt.change(w.driver)
			}
			limit := patience
			if tt.patience > 0 {
				limit = tt.patience
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := w.p.Register(ctx, name, endpoint, w.driver.Versions())
			if tt.want == "" {
				if err != nil || !cmp.Equal(w.p.Drivers(), []string{name}) {
					t.Errorf("registered are %v (%v)", w.p.Drivers(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(w.p.Drivers()) != 0 {
				t.Errorf("error is %v, want one with %q; registered are %v", err, tt.want, w.p.Drivers())
			}
		})
	}
}

// TestWatch registers a driver by its socket, and tells the control plane.
func TestWatch(t *testing.T) {
	w := &world{t: t, root: shortDir(t), table: &csitest.Table{}, server: newServer()}
	w.host = &fakeHost{table: w.table}
	registry := filepath.Join(w.root, "reg")
	w.startProvider(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.p.Watch(ctx, registry) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	w.startDriver(csitest.Config{Registry: registry, Topology: map[string]string{"zone": "b"}})
	eventually(t, "the registration", func() bool { ok, _ := w.driver.Registered(); return ok })
	w.setUp(inline("1"))
	w.tearDown("1")
	eventually(t, "the CSINode", func() bool {
		n, err := w.server.csiNodes.Get(t.Context(), "node-a", metav1.GetOptions{})
		return err == nil && len(n.Spec.Drivers) == 1 && n.Spec.Drivers[0].NodeID == "node-of-"+csitest.DefaultName
	})
	w.driver.Stop()
	eventually(t, "the end", func() bool { return len(w.p.Drivers()) == 0 })
}

// fakeTokens has a token for each audience, with the number of those that it gave.
type fakeTokens struct{ n int }

func (f *fakeTokens) ForDriver(_ context.Context, pod *corev1.Pod, driver string, want storagev1.TokenRequest) (authenticationv1.TokenRequestStatus, time.Time, error) {
	if want.Audience == "forbidden" {
		return authenticationv1.TokenRequestStatus{}, time.Time{}, errors.New("no")
	}
	f.n++
	return authenticationv1.TokenRequestStatus{Token: fmt.Sprintf("%s-%s-%s-%d", driver, pod.UID, want.Audience, f.n)}, time.Now().Add(10 * time.Second), nil
}

// TestTokens hands the driver what it asks for, where it wants it, and again in time.
func TestTokens(t *testing.T) {
	const name = csitest.DefaultName
	w := newWorld(t)
	w.startProvider(Config{Tokens: &fakeTokens{}})
	w.register()
	w.server.drivers.change(name, func(d *storagev1.CSIDriver) {
		d.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}, {Audience: ""}}
		d.Spec.RequiresRepublish = new(true)
	})
	m := w.setUp(inline("1"))
	if in := time.Until(m.RefreshAt); in <= 0 || in > 10*time.Second {
		t.Errorf("to be set up again in %s, want before the tokens end", in)
	}
	w.setUp(inline("1"))
	calls := w.driver.Calls()
	for i, want := range []string{
		`{"":{"token":"` + name + `-1--2","expirationTimestamp":null},"vault":{"token":"` + name + `-1-vault-1","expirationTimestamp":null}}`,
		`{"":{"token":"` + name + `-1--4","expirationTimestamp":null},"vault":{"token":"` + name + `-1-vault-3","expirationTimestamp":null}}`,
	} {
		if got := calls[i].Context["csi.storage.k8s.io/serviceAccount.tokens"]; got != want {
			t.Errorf("call %d: tokens are %s, want %s", i, got, want)
		}
	}
	w.driver.Inject("NodePublishVolume", csitest.Fail(codes.Internal, "no"), 1)
	w.setUpFails(inline("1"))
	if on, _ := w.table.Mounted(m.Path); !on {
		t.Error("a volume that could not be published again is not published any more")
	}
	w.tearDown("1")
	w.nothingLeft()
}

func TestTokensAmongSecrets(t *testing.T) {
	w := newWorld(t)
	w.server.drivers.change(csitest.DefaultName, func(d *storagev1.CSIDriver) {
		d.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
		d.Spec.ServiceAccountTokenInSecrets = new(true)
	})
	if err := w.setUpFails(inline("1")); !errors.Is(err, errNoTokens) {
		t.Errorf("with nobody to ask for tokens: %v", err)
	}
	w.startProvider(Config{Tokens: &fakeTokens{}})
	w.register()
	m := w.setUp(inline("1"))
	if !m.RefreshAt.IsZero() {
		t.Errorf("to be set up again at %s, want never", m.RefreshAt)
	}
	c := w.driver.Calls()[0]
	if c.Context[keyTokens] != "" || !strings.Contains(c.Secrets[keyTokens], "-1-vault-1") {
		t.Errorf("the driver was told %v and %v", c.Context, c.Secrets)
	}
	w.server.drivers.change(csitest.DefaultName, func(d *storagev1.CSIDriver) { d.Spec.TokenRequests[0].Audience = "forbidden" })
	w.startProvider(Config{Tokens: &fakeTokens{}})
	w.register()
	if err := w.setUpFails(inline("2")); !strings.Contains(err.Error(), "no") {
		t.Errorf("a token that cannot be had: %v", err)
	}
}

// TestGroup gives a volume to the group of its pod where the driver does not, by what
// the CSIDriver object and the volume say.
func TestGroup(t *testing.T) {
	rwo, rwx := corev1.ReadWriteOnce, corev1.ReadWriteMany
	tests := []struct {
		name     string
		policy   storagev1.FSGroupPolicy
		can      capabilities
		fsType   string
		mode     corev1.PersistentVolumeAccessMode
		readOnly bool
		block    bool
		none     bool // the pod has no group
		want     bool
	}{
		{name: "default", policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, fsType: "ext4", mode: rwo, want: true},
		{name: "of one pod", policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, fsType: "ext4", mode: corev1.ReadWriteOncePod, want: true},
		{name: "no type", policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, mode: rwo},
		{name: "of many nodes", policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, fsType: "ext4", mode: rwx},
		{name: "always", policy: storagev1.FileFSGroupPolicy, mode: rwx, want: true},
		{name: "never", policy: storagev1.NoneFSGroupPolicy, fsType: "ext4", mode: rwo},
		{name: "read-only", policy: storagev1.FileFSGroupPolicy, mode: rwo, readOnly: true},
		{name: "block", policy: storagev1.FileFSGroupPolicy, mode: rwo, block: true},
		{name: "the driver does it", policy: storagev1.FileFSGroupPolicy, mode: rwo, can: capabilities{group: true}},
		{name: "no group", policy: storagev1.FileFSGroupPolicy, mode: rwo, none: true},
	}
	for _, tt := range tests {
		pod := podOf("1", "db")
		if !tt.none {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(7)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch)}
		}
		w := wanted{pod: pod, fsType: tt.fsType, modes: []corev1.PersistentVolumeAccessMode{tt.mode}, readOnly: tt.readOnly, block: tt.block}
		got := w.ownership(rules{group: tt.policy}, tt.can)
		want := &ownership{group: 7, onRootMismatch: true}
		if !tt.want {
			want = nil
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(ownership{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		delegated := w.capability(tt.can, w.group()).GetMount().GetVolumeMountGroup()
		if (delegated == "7") != (tt.can.group && !tt.block) {
			t.Errorf("%s: the driver is told the group %q", tt.name, delegated)
		}
	}
}

// TestGroupOnce gives the volume to the group when it is published, not each time.
func TestGroupOnce(t *testing.T) {
	w := newWorld(t, stages, groups)
	w.claim("db", nil)
	pod := podOf("1", "db")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(7))}
	w.setUp(pod)
	for _, c := range w.driver.Calls() {
		if got := c.Capability.GetMount().GetVolumeMountGroup(); got != "7" {
			t.Errorf("%s: the driver is told the group %q", c.Op, got)
		}
	}
	if len(w.host.owned) != 0 {
		t.Errorf("the agent did it, too: %v", w.host.owned)
	}
	w = newWorld(t, stages)
	w.claim("db", nil)
	m := w.setUp(pod)
	if w.host.owned[m.Path] != (ownership{group: 7}) {
		t.Errorf("given to a group are %v", w.host.owned)
	}
	clear(w.host.owned)
	w.setUp(pod)
	if len(w.host.owned) != 0 {
		t.Errorf("given to a group again are %v", w.host.owned)
	}
}

func TestAccessModes(t *testing.T) {
	tests := map[corev1.PersistentVolumeAccessMode][2]csiapi.VolumeCapability_AccessMode_Mode{
		corev1.ReadWriteOnce:    {csiapi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csiapi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		corev1.ReadWriteOncePod: {csiapi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csiapi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER},
		corev1.ReadOnlyMany:     {csiapi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csiapi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY},
		corev1.ReadWriteMany:    {csiapi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csiapi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		"Odd":                   {csiapi.VolumeCapability_AccessMode_UNKNOWN, csiapi.VolumeCapability_AccessMode_UNKNOWN},
	}
	for mode, want := range tests {
		if got := [2]csiapi.VolumeCapability_AccessMode_Mode{accessMode(mode, false), accessMode(mode, true)}; got != want {
			t.Errorf("%s is %v, want %v", mode, got, want)
		}
	}
	can := capabilitiesOf(&csiapi.NodeGetCapabilitiesResponse{Capabilities: []*csiapi.NodeServiceCapability{nil, {}, {
		Type: &csiapi.NodeServiceCapability_Rpc{Rpc: &csiapi.NodeServiceCapability_RPC{Type: shares}},
	}}})
	if can != (capabilities{multiWriter: true}) {
		t.Errorf("capabilities are %+v", can)
	}
}

// TestExpand makes a volume grow when it was made larger elsewhere, and has the claim
// say so. A failure does not keep the pod from its volume.
func TestExpand(t *testing.T) {
	w := newWorld(t, stages, expands)
	w.claim("db", func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI.NodeExpandSecretRef = &corev1.SecretReference{Namespace: "vault", Name: "expand"}
	})
	w.server.secrets.set(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "expand"}, Data: map[string][]byte{"k": []byte("e")}})
	m := w.setUp(podOf("1", "db"))
	if in := time.Until(m.RefreshAt); in <= 0 || in > 2*time.Minute {
		t.Errorf("it is looked at again in %s", in)
	}
	w.server.volumes.change("pv-db", func(pv *corev1.PersistentVolume) {
		pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("3Gi")
	})
	w.server.claims.change("db", func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}, {Type: "Other", Status: corev1.ConditionTrue},
		}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
	})
	w.driver.Inject("NodeExpandVolume", csitest.Fail(codes.Internal, "oops"), 1)
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("1", "db"))
	calls := w.driver.Calls()
	last := calls[len(calls)-1]
	if last.Op != "NodeExpandVolume" || last.Bytes != 3<<30 || last.Target != m.Path || last.Secrets["k"] != "e" || last.Staging != w.p.paths.staging(volumeID{csitest.DefaultName, "handle-db"}) {
		t.Errorf("the driver was told %+v", last)
	}
	claim, _ := w.server.claims.Get(t.Context(), "db", metav1.GetOptions{})
	if got := claim.Status.Capacity[corev1.ResourceStorage]; got.String() != "3Gi" || len(claim.Status.Conditions) != 1 || len(claim.Status.AllocatedResourceStatuses) != 0 {
		t.Errorf("the claim says %+v", claim.Status)
	}
	w.setUp(podOf("1", "db"))
	if n := len(w.driver.Calls()); n != len(calls) {
		t.Errorf("%d more calls for a volume that has its size", n-len(calls))
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestFinal tells errors after which a call is over from those after which it may go on.
func TestFinal(t *testing.T) {
	for code, want := range map[codes.Code]bool{
		codes.Internal: true, codes.InvalidArgument: true, codes.AlreadyExists: true, codes.NotFound: true, codes.Unimplemented: true, codes.Unknown: true,
		codes.Canceled: false, codes.DeadlineExceeded: false, codes.Unavailable: false, codes.ResourceExhausted: false, codes.Aborted: false,
	} {
		if got := final(fmt.Errorf("x: %w", &CallError{Err: status.Error(code, "")})); got != want {
			t.Errorf("%s is final: %v, want %v", code, got, want)
		}
	}
	for _, err := range []error{nil, errors.New("x"), &CallError{Err: errors.New("x")}} {
		if final(err) {
			t.Errorf("%v is final", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	api := newServer().api()
	missing := api
	missing.Attachments = nil
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no name", Config{Root: "/x", API: api}, "Config.Node"},
		{"relative root", Config{Node: "a", Root: "x", API: api}, "Config.Root"},
		{"negative timeout", Config{Node: "a", Root: "/x", API: api, Timeout: -1}, "Config.Timeout"},
		{"a client is missing", Config{Node: "a", Root: "/x", API: missing}, "Config.API.Attachments"},
	}
	for _, tt := range tests {
		if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

// TestCallsAreTold has each call told with how it ended.
func TestCallsAreTold(t *testing.T) {
	w := newWorld(t)
	var calls []string
	w.startProvider(Config{OnCall: func(c Call) {
		calls = append(calls, fmt.Sprintf("%s %s %s %v", c.Op, c.Driver, status.Code(c.Err), c.Took > 0))
	}})
	w.register()
	w.driver.Inject("NodePublishVolume", csitest.Fail(codes.NotFound, "no"), 1)
	w.setUpFails(inline("1"))
	w.setUp(inline("1"))
	const driver = csitest.DefaultName
	want := []string{
		"NodeGetInfo " + driver + " OK true", "NodeGetCapabilities " + driver + " OK true",
		"NodePublishVolume " + driver + " NotFound true", "NodePublishVolume " + driver + " OK true",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
