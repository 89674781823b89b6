package engine

// SetNoWrap makes databases opened from now on bring files in by links, as systems without the linker's wrapping do.
func SetNoWrap(on bool) { noWrap = on }
