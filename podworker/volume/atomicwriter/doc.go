// Package atomicwriter replaces all files of a directory at once: who reads sees the old
// set or the new one, never a mix, whenever the writer dies. The layout is that of
// ConfigMaps and Secrets mounted into pods, which applications know and watch.
//
//	w := atomicwriter.Writer{Dir: dir}
//	changed, err := w.Write(map[string]atomicwriter.File{"app.ini": {Data: ini, Mode: 0o644}})
//
// # Layout
//
// The files stand in a directory named after the time, a generation, to which one link
// leads. What users see are links through that link:
//
//	app.ini -> ..data/app.ini
//	..data  -> ..2026_11_30_09_15_04.181920212
//
// A new set is a new generation; renaming one link over ..data publishes it, and the old
// generation is removed. A reader of several files that belong together reads below what
// ..data names, and once more if it names something else afterwards.
//
// # What it is not for
//
// It keeps no history, watches nothing, and does not coordinate writers: one at a time
// for each directory. Names that begin with ".." belong to it; everything else in the
// directory that is no link of its own is left alone.
//
// # Safety
//
// A Writer may be copied, and used for different directories at the same time. No
// path leads out of the directory, whatever links somebody plants in it. It needs the
// right to write there, and to give files away only for File.UID and Writer.GID.
package atomicwriter
