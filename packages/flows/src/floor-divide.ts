/**
 * floorDivide: x // y of Python, for y > 0.
 *
 * Not Math.floor(x / y): the quotient may round up to a whole number that x does not reach. Python takes the
 * exact remainder first (CPython, Objects/floatobject.c, _float_div_mod).
 */
export function floorDivide(x: number, y: number): number {
  let remainder = x % y
  let quotient = (x - remainder) / y
  if (remainder < 0) {
    remainder += y
    quotient -= 1
  }
  if (quotient === 0) return 0
  const whole = Math.floor(quotient)
  return quotient - whole > 0.5 ? whole + 1 : whole
}
