// Package logs reads, follows and rotates the log files of containers, in the format
// that CRI runtimes write.
//
// It talks with no runtime and does not look into pods: whoever calls says which file,
// and how to ask the runtime to reopen it. It does not collect, index or ship logs.
//
// The smallest use, the last ten lines and what comes after them:
//
//	file := logs.File{Root: "/var/log/pods", Path: "default_web_0b1c/app/0.log"}
//	ten := int64(10)
//	err := logs.Copy(ctx, os.Stdout, file, logs.Options{Tail: &ten, Follow: true})
//
// A read begins in the rotated files, compressed ones too, unless Options.LiveOnly says
// otherwise. A follower goes over from a rotated file to the next without losing or
// doubling a line, however often the file was rotated since it looked, as long as the
// files are still there. It polls: nothing in the kernel is used up by many followers.
//
// Containers can put files and links where their logs are. No link is followed below
// File.Root, and only regular files are opened (openat2 with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS, Linux 5.6). On other systems every function returns an error.
//
// Functions may be called from many goroutines at once, for the same file too. They need
// the right to read the files; rotation needs to write their folder. Both usually means
// root.
package logs
