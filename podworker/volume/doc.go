// Package volume sets up the volumes of pods on a Linux node, keeps what they show new,
// and tears them down.
//
//	m, err := volume.New(volume.Config{Objects: objects, Tokens: tokens})
//	go m.Run(ctx)
//	mounted, err := m.SetUp(ctx, pod) // before containers start
//	err = m.TearDown(ctx, pod.UID)    // after they have stopped
//
// A [Manager] does emptyDir (on disk, in memory, in huge pages), hostPath, configMap,
// secret, downwardAPI and projected volumes. Others are a [Provider]'s, as CSI is with
// package csi. ConfigMaps, Secrets, tokens and trust bundles come through small interfaces
// ([Objects], [Tokens], [Bundles]). A [Mounter] does the system calls: it binds parts of
// volumes for subPath, mounts file systems in memory, and gives volumes to a group.
//
// # State
//
// Everything is on disk, where the kubelet has it. After the death of the process, SetUp and
// TearDown go on with what they find; Clean removes what belongs to pods that are gone.
// Files that show objects are replaced all at once (package atomicwriter).
//
// # Isolation
//
// Each volume has a goroutine of its own while something is done to it. One that hangs, or
// does not unmount, holds up no other one, and its pod only. Containers write into volumes, and
// may turn any part of a path into a link while it is looked at: paths are opened beneath the
// volume (openat2(2)), and nothing is removed through a mount. Nor does it matter how deep
// they make their directories.
//
// # What it is not for
//
// It mounts no images, which the runtime does, and enforces no sizeLimit on disk: Usage says
// what volumes take up.
//
// # Safety
//
// Manager and Mounter may be used by several goroutines at once. They need Linux 5.8 and
// CAP_SYS_ADMIN, CAP_CHOWN and CAP_FOWNER; Mounter.ReadFile needs no privileges.
package volume
