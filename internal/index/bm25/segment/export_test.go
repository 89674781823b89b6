package segment

// Guard switches the guard against faults on or off, and gives what switches it back.
func Guard(on bool) func() {
	old := guarded
	guarded = on
	return func() { guarded = old }
}
