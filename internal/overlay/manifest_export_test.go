package overlay

// ManifestSum lets tests outside make heads.
var ManifestSum = manifestSum
