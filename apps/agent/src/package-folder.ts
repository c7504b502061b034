/**
 * Where this package is. Compiled modules lie in build/ and the bundle's in dist/, side by side, which is why this file must
 * stay at the top of src/.
 */
export const PACKAGE_FOLDER = new URL('../', import.meta.url)
