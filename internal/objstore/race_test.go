package objstore_test

import "context"

// testContext serves the child processes of TestProcessesRace, which have no testing.T.
var testContext = context.Background()
