/**
 * The folder of this package: one above the compiled modules, and above the bundle's files too, which is why this
 * file must stay at the top of src/.
 */
export const PACKAGE_FOLDER = new URL('../', import.meta.url)
